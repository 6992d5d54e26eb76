//! `report`: which fields of tracepoints have columns.

use crate::profile;
use crate::profile::Column;
use crate::profile::NotedField;
use crate::profile::Request;
use crate::profile::Sort;
use crate::render::script::ALL_FIELDS;
use crate::render::script::AskedField;
use crate::render::script::TraceFormats;
use crate::render::script::has_tracepoints_alone;
use crate::replay::Recording;
use crate::replay::resolved::EventIdx;

use super::message::Failure;

/// Finds the fields of `recording` that columns of `request` are about, which were spelled as in `spelled`, and
/// has the columns be about those; `is_raw` asks for fields rather than texts.
pub(super) fn settle(
    request: &mut Request,
    mut spelled: Vec<String>,
    recording: &Recording,
    is_raw: bool,
) -> Result<Vec<AskedField>, Failure> {
    if is_raw && has_tracepoints_alone(recording) && request.fields.is_none() {
        let number = u32::try_from(spelled.len()).unwrap_or(u32::MAX);
        let all = match &request.sort {
            None => Some(vec![Column::Field(number)]),
            Some(Sort::DefaultAnd(more)) => {
                Some([&[Column::Field(number)], more.as_slice()].concat())
            }
            Some(Sort::By(_)) => None,
        };
        if let Some(columns) = all {
            request.sort = Some(Sort::By(columns));
            spelled.push(ALL_FIELDS.to_owned());
        }
    }
    if spelled.is_empty() {
        return Ok(Vec::new());
    }
    let formats = TraceFormats::new(recording);
    let mut fields: Vec<AskedField> = Vec::new();
    // By what is spelled, the columns of its fields.
    let mut columns: Vec<Vec<Column>> = Vec::new();
    // What is asked for by one name shares a level of a hierarchy.
    let mut joined: Vec<Column> = Vec::new();
    for name in &spelled {
        let found = formats.find(name, is_raw);
        if found.is_empty() {
            return Err(unknown(name));
        }
        let first = fields.len();
        fields.extend(found);
        let numbers = (0_u32..).zip(&fields).skip(first);
        let numbers: Vec<_> = numbers.map(|(number, _)| Column::Field(number)).collect();
        joined.extend(numbers.iter().skip(1));
        columns.push(numbers);
    }
    let settled = |list: &[Column]| -> Vec<Column> {
        let of_column = |column: &Column| match column {
            Column::Field(name) => columns.get(*name as usize).cloned().unwrap_or_default(),
            column => vec![*column],
        };
        list.iter().flat_map(of_column).collect()
    };
    request.joined = settled(&request.joined);
    request.joined.extend(joined);
    request.extra = settled(&request.extra);
    request.fields = request.fields.as_deref().map(settled);
    request.sort = request.sort.take().map(|it| match it {
        Sort::By(list) => Sort::By(settled(&list)),
        Sort::DefaultAnd(list) => Sort::DefaultAnd(settled(&list)),
    });
    let noted = |it: &AskedField| NotedField {
        event: EventIdx(it.event),
        name: it.name.clone(),
        width: it.width,
    };
    request.noted_fields = fields.iter().map(noted).collect();
    Ok(fields)
}

fn unknown(name: &str) -> Failure {
    let known: Vec<&str> = Column::names().collect();
    let error = profile::Error::UnknownColumn { name: name.to_owned() };
    Failure::because("cannot show these columns", &error)
        .hint(format!("columns are {}, and the fields of recorded tracepoints", known.join(", ")))
}
