//! What samples are told apart by besides who, where and how they came there, as far as a report asks.
//!
//! Nothing of it is looked at where nothing of it is asked for.

use std::borrow::Cow;

use crate::perfdata::Attr;
use crate::perfdata::Sample;
use crate::perfdata::SampleType;

use super::TimeRange;

/// Something that a sample says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Detail {
    /// When it was taken, rounded down to a multiple of this many nanoseconds; 0 counts as 1.
    Time(u64),
    /// What its access cost.
    Weight,
    /// What its instruction cost, of the same.
    InstructionLatency,
    /// What stands behind that.
    RetireLatency,
    /// Flags of the transaction.
    Transaction,
    /// The size of the page of code, in bytes.
    CodePageSize,
    /// The id of the cgroup.
    Cgroup,
    /// The flags of the branch, where branches are counted.
    Branch,
    /// What the tracepoint noted, as text.
    Noted,
    /// What it noted in each of the fields that are asked for.
    Fields,
}

/// What a sample says of a [`Detail`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DetailValue {
    /// Nothing.
    None,
    /// A number.
    Number(u64),
    /// Text, as bytes of the recording.
    Text(Vec<u8>),
    /// Fields; empty ones for those of other tracepoints.
    Fields(Vec<NotedValue>),
}

/// What a tracepoint noted in a field.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NotedValue {
    /// Its content.
    pub content: Vec<u8>,
    /// How that is shown.
    pub text: Vec<u8>,
    /// How wide it wants to be, in bytes.
    pub width: u64,
}

/// What is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Counted {
    /// Samples, each with its period.
    #[default]
    Samples,
    /// The branches that samples hold, each as one: at where it went to.
    Branches,
}

/// What is asked of samples beyond their dimensions.
#[derive(Clone, Copy, Default)]
pub struct Asked<'a> {
    /// What they are told apart by.
    pub details: &'a [Detail],
    /// What is counted of them.
    pub counted: Counted,
    /// The times outside of which samples do not count; empty for all.
    pub times: &'a [TimeRange],
    /// Who prints what tracepoints note.
    pub notes: Option<&'a dyn Notes>,
}

/// The name of the function at an address of the kernel, and how far into it the address is.
pub type FunctionAt<'f, 'n> = dyn Fn(u64) -> Option<(Cow<'n, str>, u64)> + 'f;

/// Who prints what tracepoints note.
pub trait Notes: Sync {
    /// Appends what a sample of the event with index `event` noted in `raw`.
    fn print(&self, event: u32, raw: &[u8], function: &FunctionAt<'_, '_>, out: &mut Vec<u8>);

    /// Whether samples of that event note anything.
    fn has(&self, event: u32) -> bool;

    /// What a sample of the event with index `event` noted in `raw`, by the fields that are asked for.
    fn fields(&self, event: u32, raw: &[u8], function: &FunctionAt<'_, '_>) -> Vec<NotedValue>;
}

impl std::fmt::Debug for Asked<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { details, counted, times, notes: _ } = self;
        f.debug_struct("Asked")
            .field("details", details)
            .field("counted", counted)
            .field("times", times)
            .finish_non_exhaustive()
    }
}

/// What `sample` says of `detail`, but for what tracepoints and branches say.
pub(super) fn value(detail: Detail, sample: &Sample<'_>, attr: &Attr) -> DetailValue {
    let weight = sample.weight.unwrap_or_default();
    let has_parts = attr.sample_type.contains(SampleType::WEIGHT_STRUCT);
    let [cost, latency, retire] = if has_parts {
        [weight & u64::from(u32::MAX), weight >> 32 & 0xffff, weight >> 48]
    } else {
        [weight, 0, 0]
    };
    let number = match detail {
        Detail::Time(quantum) => {
            let time = sample.time.unwrap_or_default().0;
            Some(time - time % quantum.max(1))
        }
        Detail::Weight => Some(cost),
        Detail::InstructionLatency => Some(latency),
        Detail::RetireLatency => Some(retire),
        Detail::Transaction => Some(sample.transaction.unwrap_or_default()),
        Detail::CodePageSize => Some(sample.code_page_size.unwrap_or_default()),
        Detail::Cgroup => sample.cgroup,
        Detail::Branch | Detail::Noted | Detail::Fields => None,
    };
    number.map_or(DetailValue::None, DetailValue::Number)
}

impl DetailValue {
    /// Appends the value in a form that [`decode`] reads, the same for the same value.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::None => out.push(0),
            Self::Number(number) => {
                out.push(1);
                out.extend_from_slice(&number.to_le_bytes());
            }
            Self::Text(text) => {
                out.push(2);
                push_text(text, out);
            }
            Self::Fields(fields) => {
                out.push(3);
                out.extend_from_slice(&(fields.len() as u64).to_le_bytes());
                for NotedValue { content, text, width } in fields {
                    push_text(content, out);
                    push_text(text, out);
                    out.extend_from_slice(&width.to_le_bytes());
                }
            }
        }
    }
}

fn push_text(text: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(text.len() as u64).to_le_bytes());
    out.extend_from_slice(text);
}

/// Takes a number from the front of `bytes`.
fn number(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*number))
}

/// Takes what [`push_text`] wrote from the front of `bytes`.
fn text(bytes: &mut &[u8]) -> Option<Vec<u8>> {
    let len = usize::try_from(number(bytes)?).ok()?;
    let (text, rest) = bytes.split_at_checked(len)?;
    *bytes = rest;
    Some(text.to_vec())
}

/// Takes a field from the front of `bytes`.
fn field(bytes: &mut &[u8]) -> Option<NotedValue> {
    let (content, text, width) = (text(bytes)?, text(bytes)?, number(bytes)?);
    Some(NotedValue { content, text, width })
}

/// Takes a value from the front of `bytes`; `None` at their end.
fn next(bytes: &mut &[u8]) -> Option<DetailValue> {
    let (kind, rest) = bytes.split_first()?;
    *bytes = rest;
    Some(match kind {
        0 => DetailValue::None,
        1 => DetailValue::Number(number(bytes)?),
        2 => DetailValue::Text(text(bytes)?),
        _ => {
            let n = number(bytes)?;
            DetailValue::Fields((0..n).map_while(|_| field(bytes)).collect())
        }
    })
}

/// The values that were encoded one after another.
pub(super) fn decode(mut bytes: &[u8]) -> Vec<DetailValue> {
    std::iter::from_fn(|| next(&mut bytes)).collect()
}

#[cfg(test)]
mod tests {
    use crate::units::Nanos;

    use super::*;

    #[test]
    fn values_are_read_back_as_they_were_written() {
        let text = |it: &str| DetailValue::Text(it.into());
        let noted = NotedValue { content: vec![0, 1], text: b"256".to_vec(), width: 6 };
        let fields = DetailValue::Fields(vec![NotedValue::default(), noted]);
        let values = [text("a b"), DetailValue::None, fields, DetailValue::Number(7), text("")];
        let mut bytes = Vec::new();
        for value in &values {
            value.encode(&mut bytes);
        }
        assert_eq!(decode(&bytes), values);
        assert_eq!(decode(&[]), []);
    }

    #[test]
    fn parts_of_a_weight_are_details_of_their_own() {
        let sample = Sample {
            weight: Some(3 << 48 | 2 << 32 | 1),
            time: Some(Nanos(1999)),
            ..Sample::default()
        };
        let attr = Attr { sample_type: SampleType::WEIGHT_STRUCT, ..Attr::default() };
        let kinds = [Detail::Weight, Detail::InstructionLatency, Detail::RetireLatency];
        let got: Vec<_> = kinds.iter().map(|it| value(*it, &sample, &attr)).collect();
        assert_eq!(got, [1, 2, 3].map(DetailValue::Number));
        assert_eq!(value(Detail::Time(1000), &sample, &attr), DetailValue::Number(1000));
        assert_eq!(value(Detail::Cgroup, &sample, &attr), DetailValue::None);
    }
}
