//! Operations of the kernel that programs implement (`struct_ops`): which program is which.
//!
//! No link of theirs tells a program: it is the map that is registered, and its value has the ids of
//! the programs where the kernel's struct has functions.

use std::collections::BTreeSet;
use std::os::fd::AsFd;

use crate::btf::Btf;
use crate::sys::bpf;
use crate::sys::bpf_links;
use crate::sys::bpf_links::OpsMap;

/// A program that implements an operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Operation {
    /// The map that it is registered with.
    pub(super) map_id: u32,
    pub(super) prog_id: u32,
    /// What it implements: `tcp_congestion_ops.ssthresh of MAP`.
    pub(super) target: String,
}

/// The maps of a machine, as far as they have been looked at.
#[derive(Debug, Default)]
pub(super) struct OpsMaps {
    /// Those that are of another type.
    others: BTreeSet<u32>,
}

impl OpsMaps {
    /// All maps of operations, with their ids.
    pub(super) fn walk(&mut self) -> Vec<(u32, OpsMap)> {
        let mut maps = Vec::new();
        let mut others = BTreeSet::new();
        let mut last = 0;
        while let Ok(Some(id)) = bpf::next_map_id(last) {
            if id <= last {
                break;
            }
            last = id;
            if self.others.contains(&id) {
                others.insert(id);
                continue;
            }
            match bpf::map_fd(id).and_then(|it| bpf_links::ops_map(it.as_fd())) {
                Ok(Some(map)) => maps.push((id, map)),
                Ok(None) => _ = others.insert(id),
                Err(errno) => tracing::trace!(id, %errno, "map"),
            }
        }
        self.others = others;
        maps
    }
}

/// The operations in the value of the map `map_id`; `is_program` knows the programs that implement
/// any. None while the map is not in use.
pub(super) fn operations(
    map_id: u32,
    map: &OpsMap,
    btf: &Btf,
    is_program: &dyn Fn(u32) -> bool,
) -> Vec<Operation> {
    // struct bpf_struct_ops_NAME { struct bpf_struct_ops_common_value common; struct NAME data; }
    let data = btf.fields(map.value_type_id).find(|it| it.name == b"data");
    let Some(data) = data else { return Vec::new() };
    let of = btf.type_name(data.type_id).unwrap_or_default();
    let operation = |field: crate::btf::Field<'_>| {
        let at = data.offset.checked_add(field.offset)?;
        let word = u64::from_ne_bytes(*map.value.get(at..)?.first_chunk()?);
        let prog_id = u32::try_from(word).ok().filter(|it| is_program(*it))?;
        let text = [of, b".", field.name, b" of ", &map.name].concat();
        Some(Operation { map_id, prog_id, target: String::from_utf8_lossy(&text).into_owned() })
    };
    btf.fields(data.type_id).filter(|it| it.is_pointer).filter_map(operation).collect()
}

#[cfg(test)]
mod tests {
    use crate::btf::testing::Builder;

    use super::*;

    #[test]
    fn programs_are_found_where_the_struct_has_functions() {
        let mut btf = Builder::little();
        let int = btf.int("int", 4, 1, 32);
        let pointer = btf.pointer(int);
        let members = [("first", pointer, 0), ("flags", int, 64), ("second", pointer, 128)];
        let ops = btf.structure("some_ops", 24, &members);
        let value = btf.structure("bpf_struct_ops_some_ops", 32, &[("data", ops, 64)]);
        let mut map = OpsMap {
            name: b"mine".to_vec(),
            value_type_id: value,
            value: [9_u64, 7, 5, 8].iter().flat_map(|it| it.to_ne_bytes()).collect(),
            ..OpsMap::default()
        };
        let btf = btf.build();
        let find = |map: &OpsMap| operations(3, map, &btf, &|id| (5..=8).contains(&id));
        let operation = |prog_id, member: &str| {
            let target = format!("some_ops.{member} of mine");
            Operation { map_id: 3, prog_id, target }
        };
        // What is no pointer may be anything.
        assert_eq!(find(&map), [operation(7, "first"), operation(8, "second")]);
        map.value.truncate(17);
        assert_eq!(find(&map), [operation(7, "first")]);
        map.value = vec![0; 32];
        assert_eq!(find(&map), []);
        map.value_type_id = int;
        assert_eq!(find(&map), []);
    }
}
