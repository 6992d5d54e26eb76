//! Links: what attaches a program, and to what.
//!
//! Source: `struct bpf_link_info` in `include/uapi/linux/bpf.h`, and the `fill_link_info` of each
//! kind of link in the kernel.

use libbpf_rs::libbpf_sys as raw;

use crate::sys::bpf_links::LinkInfo;
use crate::sys::bpf_links::TaskFd;
use crate::sys::bpf_names;

/// What the kernel tells of a link, read but not yet put into words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Link {
    /// Its id; 0 for a program that is attached without a link.
    pub(super) id: u32,
    /// The program that it attaches; 0 where the kernel does not say.
    pub(super) prog_id: u32,
    /// `enum bpf_link_type`.
    pub(super) kind: u32,
    /// In the words of `enum bpf_attach_type` or, of perf events, of `enum bpf_perf_event_type`.
    pub(super) attach_type: Option<String>,
    pub(super) target: Target,
}

/// What a program is attached to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The kernel does not say, or this version does not know the kind of link.
    Unknown,
    /// By name: a tracepoint, or a kind of iterator.
    Named(String),
    /// A function by its number in a BTF object, or in that of a program.
    Function { object_id: u32, type_id: u32 },
    /// A function of the kernel and where in it, or a bare address.
    Code { name: String, offset: u32, addr: u64 },
    /// A place in a file of code.
    Place { path: String, offset: u32 },
    /// Several functions of the kernel.
    Functions { n_functions: u32 },
    /// Several places in a file of code.
    Places { path: String, n_places: u32 },
    /// An event of `perf_event_open(2)` that is no probe.
    Event { kind: u32, config: u64 },
    /// A control group.
    Cgroup { id: u64 },
    /// A network namespace.
    Namespace { inode: u32 },
    /// A network interface, by its number in its namespace.
    Interface { index: u32 },
    /// A map: one of operations of the kernel or of sockets.
    Map { id: u32 },
    /// A hook of netfilter.
    Netfilter { family: u32, hook: u32, priority: i32 },
}

/// Words of `enum bpf_perf_event_type`, by its numbers.
const PERF_EVENTS: [&str; 7] =
    ["", "uprobe", "uretprobe", "kprobe", "kretprobe", "tracepoint", "event"];

/// Words of `enum bpf_task_fd_type`, by its numbers.
const TASK_FDS: [&str; 6] =
    ["raw_tracepoint", "tracepoint", "kprobe", "kretprobe", "uprobe", "uretprobe"];

impl Link {
    /// Reads what the kernel told; `None` if it is shorter than what every kernel with links tells.
    pub(super) fn decode(told: &LinkInfo) -> Option<Self> {
        let words = Words(&told.info);
        let (kind, id, prog_id) = (words.u32(0)?, words.u32(4)?, words.u32(8)?);
        let (attach_type, target) =
            words.target(kind, &told.name).unwrap_or((None, Target::Unknown));
        Some(Self { id, prog_id, kind, attach_type, target })
    }

    /// A program that an event's descriptor attaches without a link, by `PERF_EVENT_IOC_SET_BPF`.
    pub(super) fn of_event(found: &TaskFd) -> Self {
        let name = String::from_utf8_lossy(&found.name).into_owned();
        let offset = u32::try_from(found.offset).unwrap_or(u32::MAX);
        let target = match found.kind {
            raw::BPF_FD_TYPE_KPROBE | raw::BPF_FD_TYPE_KRETPROBE => {
                Target::Code { name, offset, addr: found.addr }
            }
            raw::BPF_FD_TYPE_UPROBE | raw::BPF_FD_TYPE_URETPROBE => {
                Target::Place { path: name, offset }
            }
            _ => Target::Named(name),
        };
        Self {
            id: 0,
            prog_id: found.prog_id,
            kind: raw::BPF_LINK_TYPE_PERF_EVENT,
            attach_type: word(&TASK_FDS, found.kind),
            target,
        }
    }

    /// Its kind in the words of `enum bpf_link_type`.
    pub(super) fn kind_name(&self) -> String {
        bpf_names::link_kind(self.kind).map_or_else(|| format!("kind {}", self.kind), str::to_owned)
    }
}

fn word(words: &[&str], number: u32) -> Option<String> {
    let word = words.get(usize::try_from(number).ok()?).filter(|it| !it.is_empty())?;
    Some((*word).to_owned())
}

/// A `struct bpf_link_info`, which an older kernel's is shorter than ours.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn u32(&self, at: usize) -> Option<u32> {
        Some(u32::from_ne_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    fn u64(&self, at: usize) -> Option<u64> {
        Some(u64::from_ne_bytes(*self.0.get(at..)?.first_chunk()?))
    }

    /// Attach type and target of a link of the kind `kind`.
    fn target(&self, kind: u32, name: &[u8]) -> Option<(Option<String>, Target)> {
        let attached = |at| Some(bpf_names::attach_kind(self.u32(at)?)?.to_owned());
        let named = |name: &[u8]| {
            let text = String::from_utf8_lossy(name).into_owned();
            if text.is_empty() { Target::Unknown } else { Target::Named(text) }
        };
        Some(match kind {
            raw::BPF_LINK_TYPE_RAW_TRACEPOINT | raw::BPF_LINK_TYPE_ITER => (None, named(name)),
            raw::BPF_LINK_TYPE_TRACING => {
                let (object_id, type_id) = (self.u32(20)?, self.u32(24)?);
                let is_told = type_id != 0;
                let function = Target::Function { object_id, type_id };
                (attached(16), if is_told { function } else { Target::Unknown })
            }
            raw::BPF_LINK_TYPE_CGROUP => (attached(24), Target::Cgroup { id: self.u64(16)? }),
            raw::BPF_LINK_TYPE_NETNS => (attached(20), Target::Namespace { inode: self.u32(16)? }),
            raw::BPF_LINK_TYPE_XDP => (None, Target::Interface { index: self.u32(16)? }),
            raw::BPF_LINK_TYPE_TCX | raw::BPF_LINK_TYPE_NETKIT => {
                (attached(20), Target::Interface { index: self.u32(16)? })
            }
            raw::BPF_LINK_TYPE_STRUCT_OPS => (None, Target::Map { id: self.u32(16)? }),
            raw::BPF_LINK_TYPE_SOCKMAP => (attached(20), Target::Map { id: self.u32(16)? }),
            raw::BPF_LINK_TYPE_NETFILTER => {
                let priority = self.u32(24)?.cast_signed();
                let (family, hook) = (self.u32(16)?, self.u32(20)?);
                (None, Target::Netfilter { family, hook, priority })
            }
            raw::BPF_LINK_TYPE_KPROBE_MULTI => {
                let kinds = ["kprobe_multi", "kretprobe_multi"];
                let target = Target::Functions { n_functions: self.u32(24)? };
                // BPF_F_KPROBE_MULTI_RETURN
                (word(&kinds, self.u32(28)? & 1), target)
            }
            raw::BPF_LINK_TYPE_UPROBE_MULTI => {
                let kinds = ["uprobe_multi", "uretprobe_multi"];
                let path = String::from_utf8_lossy(name).into_owned();
                let target = Target::Places { path, n_places: self.u32(52)? };
                // BPF_F_UPROBE_MULTI_RETURN
                (word(&kinds, self.u32(56)? & 1), target)
            }
            raw::BPF_LINK_TYPE_PERF_EVENT => {
                let kind = self.u32(16)?;
                let text = || String::from_utf8_lossy(name).into_owned();
                let target = match kind {
                    raw::BPF_PERF_EVENT_UPROBE | raw::BPF_PERF_EVENT_URETPROBE => {
                        Target::Place { path: text(), offset: self.u32(36)? }
                    }
                    raw::BPF_PERF_EVENT_KPROBE | raw::BPF_PERF_EVENT_KRETPROBE => {
                        Target::Code { name: text(), offset: self.u32(36)?, addr: self.u64(40)? }
                    }
                    raw::BPF_PERF_EVENT_TRACEPOINT => named(name),
                    raw::BPF_PERF_EVENT_EVENT => {
                        Target::Event { kind: self.u32(32)?, config: self.u64(24)? }
                    }
                    _ => Target::Unknown,
                };
                (word(&PERF_EVENTS, kind), target)
            }
            _ => (None, Target::Unknown),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A `struct bpf_link_info` of a link 9 of program 7, with `words` after the common part.
    fn link(kind: u32, words: &[u32], name: &str) -> LinkInfo {
        let mut info: Vec<u8> =
            [kind, 9, 7, 0].iter().chain(words).flat_map(|it| it.to_ne_bytes()).collect();
        info.resize(info.len().max(72), 0);
        LinkInfo { info, name: name.as_bytes().to_vec() }
    }

    #[track_caller]
    fn check(told: &LinkInfo, attach_type: Option<&str>, target: Target) {
        let kind = u32::from_ne_bytes(*told.info.first_chunk().unwrap());
        let attach_type = attach_type.map(str::to_owned);
        let want = Link { id: 9, prog_id: 7, kind, attach_type, target };
        assert_eq!(Link::decode(told), Some(want));
    }

    /// The two halves of a 64-bit field, in the order of this machine.
    fn halves(word: u64) -> [u32; 2] {
        let bytes = word.to_ne_bytes();
        let half = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap());
        [half(0), half(4)]
    }

    #[test]
    fn a_tracepoint_is_known_by_its_name() {
        let name = "sched_switch";
        let target = || Target::Named(name.to_owned());
        check(&link(raw::BPF_LINK_TYPE_RAW_TRACEPOINT, &[], name), None, target());
        let event = [raw::BPF_PERF_EVENT_TRACEPOINT];
        let perf = link(raw::BPF_LINK_TYPE_PERF_EVENT, &event, name);
        check(&perf, Some("tracepoint"), target());
    }

    #[test]
    fn a_function_is_known_by_its_number_in_a_btf_object() {
        let told = link(raw::BPF_LINK_TYPE_TRACING, &[raw::BPF_TRACE_FENTRY, 1, 5000], "");
        check(&told, Some("trace_fentry"), Target::Function { object_id: 1, type_id: 5000 });
    }

    #[test]
    fn a_probe_is_a_place_in_code() {
        let [low, high] = halves(0xffff_ffff_8100_0010);
        let words = [raw::BPF_PERF_EVENT_KRETPROBE, 0, 0, 0, 13, 16, low, high];
        check(
            &link(raw::BPF_LINK_TYPE_PERF_EVENT, &words, "vfs_read"),
            Some("kretprobe"),
            Target::Code { name: "vfs_read".to_owned(), offset: 16, addr: 0xffff_ffff_8100_0010 },
        );
        let words = [raw::BPF_PERF_EVENT_UPROBE, 0, 0, 0, 13, 0x1234];
        let path = "/usr/bin/bash".to_owned();
        check(
            &link(raw::BPF_LINK_TYPE_PERF_EVENT, &words, &path),
            Some("uprobe"),
            Target::Place { path, offset: 0x1234 },
        );
    }

    #[test]
    fn an_event_is_known_by_type_and_number() {
        let [low, high] = halves(3);
        let words = [raw::BPF_PERF_EVENT_EVENT, 0, low, high, 1];
        let told = link(raw::BPF_LINK_TYPE_PERF_EVENT, &words, "");
        check(&told, Some("event"), Target::Event { kind: 1, config: 3 });
    }

    #[test]
    fn what_a_network_link_is_attached_to_is_a_number() {
        let xdp = link(raw::BPF_LINK_TYPE_XDP, &[2], "");
        check(&xdp, None, Target::Interface { index: 2 });
        let tcx = link(raw::BPF_LINK_TYPE_TCX, &[2, raw::BPF_TCX_INGRESS], "");
        check(&tcx, Some("tcx_ingress"), Target::Interface { index: 2 });
        let words = [77, raw::BPF_FLOW_DISSECTOR];
        let netns = link(raw::BPF_LINK_TYPE_NETNS, &words, "");
        check(&netns, Some("flow_dissector"), Target::Namespace { inode: 77 });
        let filter = link(raw::BPF_LINK_TYPE_NETFILTER, &[2, 0, 128_u32.wrapping_neg(), 0], "");
        check(&filter, None, Target::Netfilter { family: 2, hook: 0, priority: -128 });
    }

    #[test]
    fn a_control_group_is_known_by_its_id() {
        let [low, high] = halves(1 << 40);
        let words = [low, high, raw::BPF_CGROUP_INET_INGRESS];
        let told = link(raw::BPF_LINK_TYPE_CGROUP, &words, "");
        check(&told, Some("cgroup_inet_ingress"), Target::Cgroup { id: 1 << 40 });
    }

    #[test]
    fn links_of_several_probes_tell_how_many() {
        let told = link(raw::BPF_LINK_TYPE_KPROBE_MULTI, &[0, 0, 12, 1], "");
        check(&told, Some("kretprobe_multi"), Target::Functions { n_functions: 12 });
        let words = [0, 0, 0, 0, 0, 0, 0, 0, 4, 3, 0];
        let told = link(raw::BPF_LINK_TYPE_UPROBE_MULTI, &words, "/a");
        let target = Target::Places { path: "/a".to_owned(), n_places: 3 };
        check(&told, Some("uprobe_multi"), target);
    }

    #[test]
    fn an_older_kernel_tells_less_and_a_newer_one_has_other_kinds() {
        let mut told = link(raw::BPF_LINK_TYPE_TRACING, &[raw::BPF_TRACE_FENTRY], "");
        told.info.truncate(20);
        check(&told, None, Target::Unknown);
        check(&link(99, &[1, 2, 3], ""), None, Target::Unknown);
        assert_eq!(Link::decode(&link(99, &[], "")).unwrap().kind_name(), "kind 99");
        told.info.truncate(11);
        assert_eq!(Link::decode(&told), None);
    }

    #[test]
    fn a_program_without_a_link_is_on_the_event_of_a_descriptor() {
        let found = TaskFd {
            prog_id: 7,
            kind: raw::BPF_FD_TYPE_TRACEPOINT,
            name: b"sched_switch".to_vec(),
            offset: 0,
            addr: 0,
        };
        let link = Link::of_event(&found);
        assert_eq!((link.id, link.prog_id, &*link.kind_name()), (0, 7, "perf_event"));
        assert_eq!(link.attach_type.as_deref(), Some("tracepoint"));
        assert_eq!(link.target, Target::Named("sched_switch".to_owned()));
    }
}
