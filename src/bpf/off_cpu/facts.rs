//! What the program has to know of the running kernel, from its types.

use libbpf_rs::btf::Btf;
use libbpf_rs::btf::ReferencesType as _;
use libbpf_rs::btf::TypeId;
use libbpf_rs::btf::types;

/// What the kernel's types say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// Whether `sched_switch` hands over the state of the task that leaves, since Linux 5.18.
    pub(super) has_prev_state: bool,
    /// Where the count of preemptions of a CPU lies, from its queue of tasks on, in bytes.
    pub(super) preempt_count_at: Option<i64>,
    /// Whether programs can be asked of each task, since Linux 5.8.
    pub(super) has_task_iterator: bool,
}

/// The context, the flag of preemption, the two tasks, and the state.
const ARGS_WITH_STATE: usize = 5;

/// Where `preempt_count` lies in `struct pcpu_hot`, in bytes: behind a pointer.
///
/// Source: `arch/x86/include/asm/current.h` of Linux 6.2 to 6.14.
const IN_PCPU_HOT: i64 = 8;

impl Facts {
    pub(super) fn of(btf: &Btf<'_>) -> Self {
        Self {
            has_prev_state: n_args(btf, "btf_trace_sched_switch") == Some(ARGS_WITH_STATE),
            preempt_count_at: preempt_count_at(btf),
            has_task_iterator: btf.type_by_name::<types::Struct<'_>>("bpf_iter__task").is_some(),
        }
    }
}

/// How many arguments the functions have that a type of a pointer to one is of.
fn n_args(btf: &Btf<'_>, name: &str) -> Option<usize> {
    let typedef = btf.type_by_name::<types::Typedef<'_>>(name)?;
    let pointer = types::Ptr::try_from(typedef.referenced_type()).ok()?;
    let function = types::FuncProto::try_from(pointer.referenced_type()).ok()?;
    Some(function.len())
}

fn preempt_count_at(btf: &Btf<'_>) -> Option<i64> {
    let per_cpu = btf.type_by_name::<types::DataSec<'_>>(".data..percpu")?;
    let place = |name: &str| {
        let id: TypeId = btf.type_by_name::<types::Var<'_>>(name)?.type_id();
        let found = per_cpu.iter().find(|it| it.ty == id)?;
        Some(i64::from(found.offset))
    };
    let own = place("__preempt_count");
    let count = own.or_else(|| Some(place("pcpu_hot")? + IN_PCPU_HOT))?;
    Some(count - place("runqueues")?)
}
