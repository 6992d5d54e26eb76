//! Memory: how much, on which node, in which blocks.

use crate::host::cpus::parse_list;
use crate::perfdata::feature::MemoryNode;
use crate::perfdata::feature::MemoryTopology;
use crate::perfdata::feature::NumaNode;

use super::root::Root;

const NODE: &str = "sys/devices/system/node";

/// All memory, in kB.
pub(super) fn total_kb(root: &Root) -> Option<u64> {
    field(&root.text("proc/meminfo")?, "MemTotal:")
}

/// The nodes that are online.
pub(super) fn numa(root: &Root) -> Option<Vec<NumaNode>> {
    // Nodes are listed as CPUs are.
    let online = parse_list(&root.line(&format!("{NODE}/online"))?).ok()?;
    let node = |node: u32| {
        let info = root.text(&format!("{NODE}/node{node}/meminfo"))?;
        Some(NumaNode {
            node,
            total_kb: field(&info, "MemTotal:")?,
            free_kb: field(&info, "MemFree:")?,
            cpus: root.header_text(&format!("{NODE}/node{node}/cpulist"))?,
        })
    };
    online.iter().map(|it| node(it.0)).collect()
}

/// Which blocks of physical memory belong to which node; `None` without memory hotplug.
pub(super) fn blocks(root: &Root) -> Option<MemoryTopology> {
    let block_bytes = root.line("sys/devices/system/memory/block_size_bytes")?;
    let block_bytes = u64::from_str_radix(&block_bytes, 16).ok()?;
    let nodes = root.names(NODE);
    let mut nodes: Vec<u64> = nodes.iter().filter_map(|it| numbered(it, "node")).collect();
    nodes.sort_unstable();
    let node = |node: u64| {
        let names = root.names(&format!("{NODE}/node{node}"));
        let blocks: Vec<u64> = names.iter().filter_map(|it| numbered(it, "memory")).collect();
        // A node without memory has one bit, as perf writes it.
        let n_bits = blocks.iter().max().map_or(1, |last| last.saturating_add(1));
        let mut bits = vec![0; usize::try_from(n_bits.div_ceil(64)).ok()?];
        for block in blocks {
            *bits.get_mut(usize::try_from(block / 64).ok()?)? |= 1_u64 << (block % 64);
        }
        Some(MemoryNode { node, n_bits, bits })
    };
    Some(MemoryTopology { block_bytes, nodes: nodes.into_iter().map(node).collect::<Option<_>>()? })
}

/// The `12` of `node12`.
fn numbered(name: &str, prefix: &str) -> Option<u64> {
    name.strip_prefix(prefix)?.parse().ok()
}

/// The number that follows `name` in one of the forms of `meminfo`.
fn field(info: &str, name: &str) -> Option<u64> {
    let mut words = info.split_ascii_whitespace();
    words.find(|it| *it == name)?;
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use crate::perfdata::feature::Text;

    use super::super::root::tree;
    use super::*;

    #[test]
    fn memory_is_what_the_kernel_manages() {
        let (_folder, root) =
            tree(&[("proc/meminfo", "MemTotal:       24684096 kB\nMemFree: 1 kB")]);
        assert_eq!(total_kb(&root), Some(24_684_096));
    }

    #[test]
    fn a_node_has_its_memory_and_cpus() {
        let (_folder, root) = tree(&[
            ("sys/devices/system/node/online", "1\n"),
            (
                "sys/devices/system/node/node1/meminfo",
                "Node 1 MemTotal:        7694552 kB\nNode 1 MemFree:         5060404 kB\n",
            ),
            ("sys/devices/system/node/node1/cpulist", "0-1\n"),
        ]);
        let cpus = Text::from("0-1");
        let want = NumaNode { node: 1, total_kb: 7_694_552, free_kb: 5_060_404, cpus };
        assert_eq!(numa(&root), Some(vec![want]));
    }

    #[test]
    fn each_block_of_a_node_is_one_bit() {
        let block = |n: u32| format!("sys/devices/system/node/node0/memory{n}/state");
        let files = [block(0), block(2), block(64)];
        let mut files: Vec<(&str, &str)> = files.iter().map(|it| (&**it, "online")).collect();
        files.push(("sys/devices/system/memory/block_size_bytes", "8000000\n"));
        files.push(("sys/devices/system/node/node1/cpulist", "\n"));
        let (_folder, root) = tree(&files);
        let want = MemoryTopology {
            block_bytes: 0x800_0000,
            nodes: vec![
                MemoryNode { node: 0, n_bits: 65, bits: vec![0b101, 1] },
                MemoryNode { node: 1, n_bits: 1, bits: vec![0] },
            ],
        };
        assert_eq!(blocks(&root), Some(want));
    }
}
