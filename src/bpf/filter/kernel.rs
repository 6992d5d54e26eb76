//! What of a sample the running kernel lets a program see.
//!
//! A program of an event is given a view of registers, period and data address; by
//! `bpf_cast_to_kern_ctx()` (since Linux 6.2) that becomes the kernel's own
//! `struct bpf_perf_event_data_kern`, which leads to the sample. There the sample is whole only
//! since 6.3, whose `bpf_overflow_handler()` in `kernel/events/core.c` calls
//! `perf_prepare_sample()` first: so what stands in it is what will be written. That kernel is known
//! by `dyn_size`, which `struct perf_sample_data` has since.

use std::fs;

use crate::bpf::knows_all_ids;
use crate::btf::Btf;

/// A field of `struct perf_sample_data`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field {
    Ip,
    Id,
    Pid,
    Tid,
    Time,
    Addr,
    Period,
    Transaction,
    Weight,
    DataSource,
    PhysAddr,
    CodePageSize,
    DataPageSize,
    CallChain,
}

/// Where the fields of a sample are.
const PATHS: [(Field, &[&[u8]]); 14] = [
    (Field::Ip, &[b"ip"]),
    (Field::Id, &[b"id"]),
    (Field::Pid, &[b"tid_entry", b"pid"]),
    (Field::Tid, &[b"tid_entry", b"tid"]),
    (Field::Time, &[b"time"]),
    (Field::Addr, &[b"addr"]),
    (Field::Period, &[b"period"]),
    (Field::Transaction, &[b"txn"]),
    (Field::Weight, &[b"weight"]),
    (Field::DataSource, &[b"data_src"]),
    (Field::PhysAddr, &[b"phys_addr"]),
    (Field::CodePageSize, &[b"code_page_size"]),
    (Field::DataPageSize, &[b"data_page_size"]),
    (Field::CallChain, &[b"callchain"]),
];

/// The kernel's samples as its types describe them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sample {
    /// The type of `bpf_cast_to_kern_ctx()`.
    pub(super) cast: i32,
    /// Where the kernel's view keeps the pointer to the sample, in bytes.
    pub(super) data: i16,
    fields: Vec<(Field, i16)>,
}

impl Sample {
    /// Where `field` is in a sample, in bytes.
    pub(super) fn offset(&self, field: Field) -> Option<i16> {
        self.fields.iter().find(|it| it.0 == field).map(|it| it.1)
    }

    /// What the types of a kernel say.
    pub(super) fn of(btf: &Btf) -> Result<Self, Hidden> {
        let view = btf.structure(b"bpf_perf_event_data_kern").ok_or(Hidden::NotPrepared)?;
        let sample = btf.structure(b"perf_sample_data").ok_or(Hidden::NotPrepared)?;
        let cast = btf.function(b"bpf_cast_to_kern_ctx").ok_or(Hidden::NotPrepared)?;
        btf.offset(sample, &[b"dyn_size"]).ok_or(Hidden::NotPrepared)?;
        let short = |it: usize| i16::try_from(it).ok();
        let data = btf.offset(view, &[b"data"]).and_then(short).ok_or(Hidden::NotPrepared)?;
        let find = |(field, path): &(Field, &[&[u8]])| {
            Some((*field, btf.offset(sample, path).and_then(short)?))
        };
        let fields = PATHS.iter().filter_map(find).collect();
        Ok(Self { cast: cast.cast_signed(), data, fields })
    }
}

/// Where things are in a task, in bytes: a look at it takes half the time of a call that copies a name,
/// or maps an id of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Task {
    /// Its name.
    pub(super) comm: i16,
    /// The pointer to whom it runs for,
    pub(super) cred: i16,
    /// and in that the real user,
    pub(super) uid: i16,
    /// and group.
    pub(super) gid: i16,
}

impl Task {
    fn of(btf: &Btf) -> Option<Self> {
        let (task, cred) = (btf.structure(b"task_struct")?, btf.structure(b"cred")?);
        let offset = |of: u32, name: &[u8]| i16::try_from(btf.offset(of, &[name])?).ok();
        Some(Self {
            comm: offset(task, b"comm")?,
            cred: offset(task, b"cred")?,
            uid: offset(cred, b"uid")?,
            gid: offset(cred, b"gid")?,
        })
    }
}

/// Why a program cannot see a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Hidden {
    /// There are no types to find it by.
    #[error("this kernel does not describe its types: it has no `/sys/kernel/btf/vmlinux`")]
    NoTypes,
    /// It is not there yet when the program runs.
    #[error("this kernel completes a sample after its filter ran; Linux 6.3 does it before")]
    NotPrepared,
    /// The event is a probe.
    #[error("the filter of a probe sees no sample")]
    OfProbe,
    /// Registers lie elsewhere.
    #[error("where its registers lie on this machine is not known here")]
    Machine,
    /// The recorder's own ids are others.
    #[error("this kernel's filters know no ids but those outside of containers")]
    Namespace,
}

/// What a filter can be made from on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kernel {
    pub(super) sample: Result<Sample, Hidden>,
    /// The running task, where a program may look at it.
    pub(super) task: Option<Task>,
    /// Whether the recorder lives where all ids are known.
    pub(super) is_first_namespace: bool,
}

impl Kernel {
    /// The running kernel.
    pub(super) fn look() -> Self {
        let btf = fs::read("/sys/kernel/btf/vmlinux").ok().and_then(|it| Btf::parse(it).ok());
        let sample = btf.as_ref().map_or(Err(Hidden::NoTypes), Sample::of);
        let task = btf.as_ref().filter(|_| sample.is_ok()).and_then(Task::of);
        let is_first_namespace = knows_all_ids();
        Self { sample, task, is_first_namespace }
    }
}

/// Where a program of an event finds what it needs no types for.
///
/// Source: `struct bpf_perf_event_data` in `include/uapi/linux/bpf_perf_event.h`, which begins
/// with the registers as `struct pt_regs` or `user_pt_regs` of the machine has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct View {
    /// The instruction pointer.
    pub(super) ip: i16,
    /// The register that tells user space from the kernel,
    pub(super) level: i16,
    /// by these bits,
    pub(super) level_mask: i32,
    /// which in user space are 0, or in the kernel.
    pub(super) user_is_zero: bool,
    pub(super) period: i16,
    pub(super) addr: i16,
}

/// That of this machine.
pub(super) const VIEW: Option<View> = if cfg!(target_arch = "x86_64") {
    // `cs`: `user_mode()` in `arch/x86/include/asm/ptrace.h`.
    Some(View { ip: 128, level: 136, level_mask: 3, user_is_zero: false, period: 168, addr: 176 })
} else if cfg!(target_arch = "aarch64") {
    // `pstate`: `user_mode()` in `arch/arm64/include/asm/ptrace.h`.
    Some(View { ip: 256, level: 264, level_mask: 0xf, user_is_zero: true, period: 272, addr: 280 })
} else {
    None
};

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::btf::testing::Builder;

    /// Places as on Linux 6.18.
    pub(in super::super) fn sample() -> Sample {
        let fields = [
            (Field::Period, 8),
            (Field::Pid, 32),
            (Field::Tid, 36),
            (Field::Time, 40),
            (Field::Id, 48),
            (Field::Ip, 64),
            (Field::CallChain, 72),
            (Field::Weight, 104),
            (Field::DataSource, 112),
            (Field::Transaction, 120),
            (Field::Addr, 184),
            (Field::PhysAddr, 192),
            (Field::DataPageSize, 200),
            (Field::CodePageSize, 208),
        ];
        Sample { cast: 1234, data: 8, fields: fields.to_vec() }
    }

    #[test]
    fn a_sample_is_found_by_the_types_of_a_kernel_that_completes_it_first() {
        for is_new in [true, false] {
            let mut btf = Builder::little();
            let int = btf.int("long", 8, 0, 64);
            let pointer = btf.pointer(int);
            btf.structure(
                "bpf_perf_event_data_kern",
                24,
                &[("regs", pointer, 0), ("data", pointer, 64)],
            );
            let entry = btf.structure("", 8, &[("pid", int, 0), ("tid", int, 32)]);
            let newest = if is_new { "dyn_size" } else { "other" };
            let members = [(newest, int, 0), ("tid_entry", entry, 64), ("ip", int, 128)];
            btf.structure("perf_sample_data", 24, &members);
            let cast = btf.add("bpf_cast_to_kern_ctx", 12 << 24, int, &[]);
            let found = Sample::of(&btf.build());
            if !is_new {
                assert_eq!(found, Err(Hidden::NotPrepared));
                continue;
            }
            let found = found.unwrap();
            assert_eq!((found.cast.cast_unsigned(), found.data), (cast, 8));
            assert_eq!(found.offset(Field::Tid), Some(12));
            assert_eq!(found.offset(Field::Ip), Some(16));
            assert_eq!(found.offset(Field::Time), None);
        }
    }
}
