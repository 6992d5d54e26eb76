//! The columns about samples: headings, widths and cells.

use crate::profile::Column;
use crate::profile::Plan;
use crate::profile::Row;
use crate::profile::SampleKey;
use crate::profile::Value;
use crate::render::escape::escape;

use super::Style;
use super::table::cut;
use super::table::push;

/// What stands above a column. What waits for a stage of the pipeline or to retire is one number of a
/// sample on an x86 machine, and perf has the words of the two the other way round there.
pub(super) fn heading(key: SampleKey) -> &'static str {
    match key {
        SampleKey::Time => "Time",
        SampleKey::LocalWeight => "Local Weight",
        SampleKey::Weight => "Weight",
        SampleKey::LocalInstructionLatency => "Local INSTR Latency",
        SampleKey::InstructionLatency => "INSTR Latency",
        SampleKey::LocalStageCycles => "Local Retire Latency",
        SampleKey::StageCycles => "Retire Latency",
        SampleKey::LocalRetireLatency => "Local Pipeline Stage Cycle",
        SampleKey::RetireLatency => "Pipeline Stage Cycle",
        SampleKey::Transaction => "Transaction",
        SampleKey::CodePageSize => "Code Page Size",
        SampleKey::Cgroup => "Cgroup",
        SampleKey::Socket => "Socket",
        SampleKey::Parent => "Parent symbol",
        SampleKey::Simd => "Simd   ",
        SampleKey::Noted => "Trace output",
        SampleKey::CommWithoutDigits => "CommandNoDigit",
        SampleKey::DsoFrom => "Source Shared Object",
        SampleKey::DsoTo => "Target Shared Object",
        SampleKey::SymbolFrom => "Source Symbol",
        SampleKey::SymbolTo => "Target Symbol",
        SampleKey::AddrFrom => "Source Address",
        SampleKey::AddrTo => "Target Address",
        SampleKey::Mispredict => "Branch Mispredicted",
        SampleKey::InTransaction => "Branch in transaction",
        SampleKey::Abort => "Transaction abort",
        SampleKey::Cycles => "Basic Block Cycles",
        SampleKey::LineFrom => "From Source:Line",
        SampleKey::LineTo => "To Source:Line",
    }
}

/// How wide a column is, its heading aside.
pub(super) fn width(key: SampleKey, plan: &Plan, rows: &[Row], style: &Style) -> usize {
    let column = Column::Sample(key);
    let values = || {
        let shown = rows.iter().filter(|it| it.is_shown);
        shown.filter_map(|it| plan.facts.value(column, it.group))
    };
    let longest = |len: &dyn Fn(&Value) -> usize| values().map(len).max().unwrap_or(0);
    let len = |it: &Value| escape(it.text.as_bytes()).len();
    match key {
        SampleKey::Time => longest(&len).max(if plan.facts.has_nanoseconds { 16 } else { 12 }),
        SampleKey::LocalWeight | SampleKey::Weight => 12,
        SampleKey::Transaction => 32,
        // perf does not ask what a module is called in which there is no symbol.
        SampleKey::DsoFrom | SampleKey::DsoTo => {
            let is_narrow = style.is_narrow(plan);
            let len = |it: &Value| match it.is_unresolved {
                false => len(it),
                true if is_narrow => 0,
                true => 16,
            };
            longest(&len)
        }
        SampleKey::SymbolFrom | SampleKey::SymbolTo | SampleKey::AddrFrom | SampleKey::AddrTo => {
            longest(&|it| if it.is_unresolved { 22 } else { len(it) })
        }
        SampleKey::Cgroup
        | SampleKey::Parent
        | SampleKey::Noted
        | SampleKey::LineFrom
        | SampleKey::LineTo
        | SampleKey::CommWithoutDigits => longest(&len),
        _ => 0,
    }
}

/// How wide the column of a field of a tracepoint is, its heading aside.
pub(super) fn width_of_field(field: u32, plan: &Plan, rows: &[Row]) -> usize {
    let least = plan.noted_fields.get(field as usize).map_or(0, |it| it.width);
    let values = rows.iter().filter_map(|it| plan.facts.value(Column::Field(field), it.group));
    let widest = values.map(|it| it.number).max().unwrap_or(0);
    // A field lies in a record, which is shorter than that.
    least.max(usize::from(u16::try_from(widest).unwrap_or(u16::MAX)))
}

/// Appends the cell of a row of `n_samples`.
pub(super) fn cell(
    key: SampleKey,
    value: Option<&Value>,
    n_samples: u64,
    width: usize,
    text: &mut String,
) {
    let Some(value) = value else { return };
    let shown = escape(value.text.as_bytes());
    match key {
        SampleKey::Weight
        | SampleKey::InstructionLatency
        | SampleKey::StageCycles
        | SampleKey::RetireLatency => {
            push(text, format_args!("{:<width$}", value.number.wrapping_mul(n_samples)));
        }
        SampleKey::Socket => push(text, format_args!("{shown:>width$}")),
        SampleKey::Parent
        | SampleKey::DsoFrom
        | SampleKey::DsoTo
        | SampleKey::CommWithoutDigits
        | SampleKey::LineFrom
        | SampleKey::LineTo
        | SampleKey::Mispredict => cut(text, &shown, width),
        SampleKey::LocalWeight
        | SampleKey::LocalInstructionLatency
        | SampleKey::LocalStageCycles
        | SampleKey::LocalRetireLatency
        | SampleKey::Transaction
        | SampleKey::CodePageSize
        | SampleKey::InTransaction
        | SampleKey::Abort
        | SampleKey::Cycles => push(text, format_args!("{shown:<width$}")),
        SampleKey::Time
        | SampleKey::Cgroup
        | SampleKey::Simd
        | SampleKey::Noted
        | SampleKey::SymbolFrom
        | SampleKey::SymbolTo
        | SampleKey::AddrFrom
        | SampleKey::AddrTo => text.push_str(&shown),
    }
}
