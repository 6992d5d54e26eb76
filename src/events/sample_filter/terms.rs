//! What of a sample can be asked for, and the words for its values.
//!
//! Source: `PERF_MEM_*` in `include/uapi/linux/perf_event.h`; perf's words for them in
//! `tools/perf/util/bpf-filter.l`.

use crate::perfdata::SampleType;

/// A number of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Term {
    /// The address of the instruction.
    Ip,
    /// The id of the event.
    Id,
    /// The thread.
    Tid,
    /// The process.
    Pid,
    /// The CPU.
    Cpu,
    /// The time on the recording's clock, in nanoseconds.
    Time,
    /// The address of the data.
    Addr,
    /// How many events the sample stands for.
    Period,
    /// The flags of the transaction.
    Transaction,
    /// What the access cost.
    Weight,
    /// The lower 32 bits of the weight.
    Weight1,
    /// The next 16 bits of the weight.
    Weight2,
    /// The upper 16 bits of the weight.
    Weight3,
    /// The physical address of the data.
    PhysAddr,
    /// The size of the page of the instruction, in bytes.
    CodePageSize,
    /// The size of the page of the data, in bytes.
    DataPageSize,
    /// `mem_op` of the access.
    MemOp,
    /// `mem_lvl_num` of the access.
    MemLevel,
    /// `mem_snoop` of the access, and `mem_snoopx` in the bits above.
    MemSnoop,
    /// `mem_remote` of the access.
    MemRemote,
    /// `mem_lock` of the access.
    MemLock,
    /// `mem_dtlb` of the access.
    MemTlb,
    /// `mem_blk` of the access.
    MemBlocked,
    /// `mem_hops` of the access.
    MemHops,
    /// The real user.
    Uid,
    /// The real group.
    Gid,
    /// The cgroup.
    Cgroup,
}

/// A term as it is written.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) name: &'static str,
    pub(super) term: Term,
    /// The fields of which any holds it.
    pub(super) needs: SampleType,
    /// Names of values.
    pub(super) words: &'static [(&'static str, u64)],
}

const fn known(name: &'static str, term: Term, needs: SampleType) -> Known {
    Known { name, term, needs, words: &[] }
}

const fn of_memory(name: &'static str, term: Term, words: &'static [(&'static str, u64)]) -> Known {
    Known { name, term, needs: SampleType::DATA_SRC, words }
}

/// Any of the fields that tell the id.
const IDS: SampleType = SampleType::ID.union(SampleType::IDENTIFIER);
const WEIGHTS: SampleType = SampleType::WEIGHT.union(SampleType::WEIGHT_STRUCT);
const NONE: SampleType = SampleType::empty();

const LEVELS: &[(&str, u64)] = &[
    ("l1", 0x1),
    ("l2", 0x2),
    ("l3", 0x3),
    ("l4", 0x4),
    ("cxl", 0x9),
    ("io", 0xa),
    ("any_cache", 0xb),
    ("lfb", 0xc),
    ("ram", 0xd),
    ("pmem", 0xe),
    ("na", 0xf),
];

/// All terms; of those with several names the first is the usual one.
pub(super) const ALL: &[Known] = &[
    known("ip", Term::Ip, SampleType::IP),
    known("id", Term::Id, IDS),
    known("tid", Term::Tid, NONE),
    known("pid", Term::Pid, NONE),
    known("cpu", Term::Cpu, NONE),
    known("time", Term::Time, SampleType::TIME),
    known("addr", Term::Addr, SampleType::ADDR),
    known("period", Term::Period, NONE),
    known("txn", Term::Transaction, SampleType::TRANSACTION),
    known("weight", Term::Weight, WEIGHTS),
    known("weight1", Term::Weight1, SampleType::WEIGHT_STRUCT),
    known("weight2", Term::Weight2, SampleType::WEIGHT_STRUCT),
    known("ins_lat", Term::Weight2, SampleType::WEIGHT_STRUCT),
    known("weight3", Term::Weight3, SampleType::WEIGHT_STRUCT),
    known("p_stage_cyc", Term::Weight3, SampleType::WEIGHT_STRUCT),
    known("retire_lat", Term::Weight3, SampleType::WEIGHT_STRUCT),
    known("phys_addr", Term::PhysAddr, SampleType::PHYS_ADDR),
    known("code_pgsz", Term::CodePageSize, SampleType::CODE_PAGE_SIZE),
    known("code_page_size", Term::CodePageSize, SampleType::CODE_PAGE_SIZE),
    known("data_pgsz", Term::DataPageSize, SampleType::DATA_PAGE_SIZE),
    known("data_page_size", Term::DataPageSize, SampleType::DATA_PAGE_SIZE),
    of_memory(
        "mem_op",
        Term::MemOp,
        &[("na", 0x1), ("load", 0x2), ("store", 0x4), ("pfetch", 0x8), ("exec", 0x10)],
    ),
    of_memory("mem_lvl", Term::MemLevel, LEVELS),
    of_memory("mem_lvlnum", Term::MemLevel, LEVELS),
    of_memory(
        "mem_snoop",
        Term::MemSnoop,
        // The last two are bits of `mem_snoopx`.
        &[
            ("na", 0x1),
            ("none", 0x2),
            ("hit", 0x4),
            ("miss", 0x8),
            ("hitm", 0x10),
            ("fwd", 0x20),
            ("peer", 0x40),
        ],
    ),
    of_memory("mem_remote", Term::MemRemote, &[("remote", 0x1)]),
    of_memory("mem_lock", Term::MemLock, &[("na", 0x1), ("locked", 0x2)]),
    of_memory(
        "mem_dtlb",
        Term::MemTlb,
        &[
            ("na", 0x1),
            ("l1_hit", 0xa),
            ("l1_miss", 0xc),
            ("l2_hit", 0x12),
            ("l2_miss", 0x14),
            ("any_hit", 0x2),
            ("any_miss", 0x4),
            ("walk", 0x20),
            ("os", 0x40),
            ("fault", 0x40),
        ],
    ),
    of_memory("mem_blk", Term::MemBlocked, &[("na", 0x1), ("by_data", 0x2), ("by_addr", 0x4)]),
    of_memory(
        "mem_hops",
        Term::MemHops,
        &[("hops0", 0x1), ("hops1", 0x2), ("hops2", 0x3), ("hops3", 0x4)],
    ),
    known("uid", Term::Uid, NONE),
    known("gid", Term::Gid, NONE),
    known("cgroup", Term::Cgroup, NONE),
];
