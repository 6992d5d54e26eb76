//! The table of programs as JSON; `docs/json.md` is the reference.

use std::io;

use serde::Serialize;

use crate::perfdata::bpf_info::ProgInfo;
use crate::perfdata::private::Holder;
use crate::perfdata::private::LinkState;
use crate::perfdata::private::MapState;
use crate::perfdata::private::TracepointPrograms;
use crate::profile::Charge;
use crate::profile::Weight;
use crate::render::json;
use crate::render::json::Layout;
use crate::replay::programs::Program;

use super::Source;
use super::share;

/// The name of the schema.
const SCHEMA: &str = "bpfperf.bpf-bill";

/// The version of the schema: it grows where something changes its meaning or goes, and not where
/// something is added.
const VERSION: u32 = 1;

#[derive(Debug, Serialize)]
struct Document<'a> {
    schema: &'static str,
    version: u32,
    events: Vec<EventJson<'a>>,
    run_counters: Option<RunCounters>,
    tracepoints: Vec<&'a TracepointPrograms>,
    programs: Vec<ProgramJson<'a>>,
}

#[derive(Debug, Serialize)]
struct EventJson<'a> {
    name: &'a str,
    has_callchains: bool,
    samples: u64,
    period: u64,
    lost_samples: u64,
    bpf_self: Part,
    bpf_total: Part,
}

/// A number of samples, with their share in percent of all of their event.
#[derive(Debug, Serialize)]
struct Part {
    samples: u64,
    period: u64,
    percent: f64,
}

#[derive(Debug, Serialize)]
struct RunCounters {
    counted: bool,
    elapsed_ns: u64,
}

#[derive(Debug, Serialize)]
struct ProgramJson<'a> {
    id: Option<u32>,
    load_time_ns: Option<u64>,
    name: String,
    tag: Option<String>,
    r#type: Option<&'static str>,
    loaded_ns: Option<u64>,
    unloaded_ns: Option<u64>,
    owner: Option<ProcessJson>,
    loader: Option<ProcessJson>,
    created_by_uid: Option<u32>,
    functions: Vec<FunctionJson>,
    metadata: serde_json::Map<String, serde_json::Value>,
    links: &'a [LinkState],
    attachments: Vec<AttachmentJson<'a>>,
    maps: &'a [MapState],
    pins: &'a [String],
    holders: &'a [Holder],
    runs: Option<RunsJson>,
    events: Vec<ChargeJson<'a>>,
}

#[derive(Debug, Serialize)]
struct ProcessJson {
    pid: i32,
    comm: String,
}

#[derive(Debug, Serialize)]
struct FunctionJson {
    index: usize,
    name: String,
    addr: String,
    len: u64,
}

#[derive(Debug, Serialize)]
struct AttachmentJson<'a> {
    event: &'a str,
    how: &'a str,
    can_drop: bool,
}

#[derive(Debug, Serialize)]
struct RunsJson {
    runs: u64,
    run_time_ns: u64,
    ns_per_run: Option<f64>,
    recursion_misses: u64,
    cpu_percent: Option<f64>,
}

#[derive(Debug, Serialize)]
struct ChargeJson<'a> {
    event: &'a str,
    #[serde(rename = "self")]
    own: Part,
    total: Part,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    callees: Vec<CalleeJson>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    lines: Vec<LineJson>,
}

#[derive(Debug, Serialize)]
struct CalleeJson {
    symbol: Option<String>,
    module: Option<String>,
    addr: String,
    total: Part,
}

#[derive(Debug, Serialize)]
struct LineJson {
    file: String,
    line: u32,
    text: String,
    #[serde(rename = "self")]
    own: Part,
    total: Part,
}

/// The programs of `source` as one JSON object.
///
/// # Errors
///
/// If a value has no form in JSON, which none of these is.
pub fn json(source: &Source<'_>) -> io::Result<String> {
    let Source { resolved, programs, bill, percentage, .. } = source;
    let events = bill.events.iter().map(|it| {
        let event = resolved.events.get(it.event.0 as usize);
        let base = it.totals.base(*percentage);
        EventJson {
            name: event.map_or("", |it| &it.name),
            has_callchains: event.is_some_and(|it| it.has_callchain),
            samples: it.totals.n_samples,
            period: it.totals.period,
            lost_samples: event.map_or(0, |it| it.n_lost),
            bpf_self: part(it.own, base),
            bpf_total: part(it.total, base),
        }
    });
    let runs = programs.runs();
    let first = bill.order(programs, 0).into_iter().map(|it| &bill.items[it]);
    let document = Document {
        schema: SCHEMA,
        version: VERSION,
        events: events.collect(),
        run_counters: runs
            .map(|it| RunCounters { counted: it.counted, elapsed_ns: it.elapsed_ns() }),
        tracepoints: programs.tracepoints().to_vec(),
        programs: first
            .map(|it| program(source, programs.program(it.program), &it.charges))
            .collect(),
    };
    let mut out = Vec::new();
    json::write(&document, Layout::Pretty, &mut out)?;
    String::from_utf8(out).map_err(io::Error::other)
}

fn program<'a>(source: &Source<'a>, it: &'a Program<'a>, charges: &[Charge]) -> ProgramJson<'a> {
    let process =
        |it: crate::replay::programs::Process| ProcessJson { pid: it.pid.0, comm: text(&it.comm) };
    let elapsed_ns = source.programs.runs().map_or(0, |it| it.elapsed_ns());
    let metadata = it.metadata.iter().map(|(key, value)| (key.clone(), value.clone().into()));
    ProgramJson {
        id: it.id.map(|it| it.0),
        load_time_ns: it.load_time_ns,
        name: text(&it.name),
        tag: it.tag.map(|it| it.to_string()),
        r#type: it.type_name(),
        loaded_ns: it.loaded.map(|it| it.0),
        unloaded_ns: it.unloaded.map(|it| it.0),
        owner: it.owner().map(process),
        loader: it.loader.clone().map(process),
        created_by_uid: it.info.as_ref().map(ProgInfo::created_by_uid),
        functions: it
            .functions
            .iter()
            .map(|it| FunctionJson {
                index: it.idx,
                name: text(&it.name),
                addr: format!("0x{}", it.start),
                len: it.end - it.start,
            })
            .collect(),
        metadata: metadata.collect(),
        links: &it.state.links,
        attachments: it
            .state
            .attachments
            .iter()
            .map(|it| AttachmentJson { event: &it.event, how: &it.how, can_drop: it.can_drop })
            .collect(),
        maps: &it.state.maps,
        pins: &it.state.pins,
        holders: &it.state.holders,
        runs: it.cost.map(|it| RunsJson {
            runs: it.runs,
            run_time_ns: it.run_time_ns,
            ns_per_run: it.ns_per_run(),
            recursion_misses: it.recursion_misses,
            cpu_percent: (elapsed_ns != 0)
                .then(|| 100.0 * it.run_time_ns as f64 / elapsed_ns as f64),
        }),
        events: charges.iter().enumerate().map(|(idx, it)| charge(source, idx, it)).collect(),
    }
}

fn charge<'a>(source: &Source<'a>, idx: usize, it: &Charge) -> ChargeJson<'a> {
    let Source { resolved, bill, percentage, .. } = source;
    let billed = bill.events.get(idx);
    let base = billed.map_or(0, |it| it.totals.base(*percentage));
    let event = billed.and_then(|it| resolved.events.get(it.event.0 as usize));
    let callees = it.callees.iter().filter_map(|it| {
        let location = resolved.locations.get(it.location.0 as usize)?;
        let symbol = location.symbol.and_then(|it| resolved.symbols.get(it.0 as usize));
        let module = location.dso.and_then(|it| resolved.dsos.get(it.0 as usize));
        Some(CalleeJson {
            symbol: symbol.map(|it| it.name.clone()),
            module: module.map(|it| it.long_name.clone()),
            addr: format!("0x{}", location.ip),
            total: part(it.weight, base),
        })
    });
    let lines = it.lines.iter().map(|it| LineJson {
        file: text(&it.file),
        line: it.line,
        text: text(&it.text),
        own: part(it.own, base),
        total: part(it.total, base),
    });
    ChargeJson {
        event: event.map_or("", |it| &it.name),
        own: part(it.own, base),
        total: part(it.total, base),
        callees: callees.collect(),
        lines: lines.collect(),
    }
}

fn part(weight: Weight, base: u64) -> Part {
    let Weight { period, n_samples: samples } = weight;
    Part { samples, period, percent: share(weight, base) }
}

/// A name of the recording; what is no UTF-8 shows as the replacement character.
fn text(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}
