//! What is told at the end of a recording.

use std::path::Path;

use crate::bpf::Skipped;
use crate::perfdata::private::ObjectValues;
use crate::perfdata::private::TracepointPrograms;
use crate::record::BpfGaps;
use crate::record::FileGaps;
use crate::record::Losses;
use crate::record::Output;
use crate::record::OutputTally;
use crate::record::Summary;
use crate::record::Verdict;
use crate::render;

use super::super::message;
use super::name_of;

/// Tells how a recording went.
pub(super) fn tell_summary(summary: &Summary, output: &Output) {
    let tally = &summary.tally;
    let lost = tally.all_lost();
    if lost != 0 {
        message::warn(&format!("{lost} records were lost: the profile is incomplete; raise `-m`"));
    }
    if tally.throttled != 0 {
        let times = tally.throttled;
        message::warn(&format!("the kernel paused the sampling {times} times; lower `-F`"));
    }
    if tally.corrupt != 0 {
        let n = tally.corrupt;
        message::warn(&format!("{n} pieces of the rings were no records and are left out"));
    }
    for line in left_out(&summary.outputs) {
        message::say(&line);
    }
    if let Some(losses) = off_cpu(summary.off_cpu) {
        message::warn(&losses);
    }
    if let Some(gaps) = bpf_gaps(&summary.bpf) {
        message::warn(&gaps);
    }
    if let Some(gaps) = file_gaps(summary.files) {
        message::warn(&gaps);
    }
    let own: Vec<u32> = summary.verdicts.iter().map(|it| it.id).collect();
    if let Some(droppers) = droppers(&summary.tracepoints, &own) {
        message::warn(&droppers);
    }
    let verdicts = summary.verdicts.iter().filter_map(verdict);
    verdicts.for_each(|it| message::say(&format!("[ bpfperf record: {it} ]")));
    let samples = counted(tally.samples);
    let megabytes = megabytes(summary.bytes);
    let seconds = summary.elapsed.as_secs_f64();
    let lost = Without { lost, filtered: tally.filtered }.told();
    let missed = bpf_missed(summary.bpf.skipped.n_vanished);
    if summary.n_parts != 0 {
        let files = if summary.n_parts == 1 { "file" } else { "files" };
        message::say(&format!(
            "[ bpfperf record: Captured {samples} in {} {files} ({seconds:.3} s{lost}{missed}) ]",
            summary.n_parts
        ));
        return;
    }
    let name = name_of(output);
    message::say(&format!(
        "[ bpfperf record: Captured and wrote {megabytes:.3} MB {name} \
         ({samples}, {seconds:.3} s{lost}{missed}) ]"
    ));
}

/// What a program took away.
fn verdict(verdict: &Verdict) -> Option<String> {
    let Verdict { event, id: _, tracepoint, can_drop, n_dropped } = verdict;
    if !can_drop || *n_dropped == Some(0) {
        return None;
    }
    let n_dropped = n_dropped.map_or_else(|| "samples that nobody counted".to_owned(), counted);
    Some(match tracepoint {
        Some(name) => format!("`{event}` took {n_dropped} of `{name}` from every recorder"),
        None => format!("`{event}` dropped {n_dropped}"),
    })
}

/// Tells of one file of several.
pub(super) fn tell_part(path: &Path, bytes: u64, samples: u64, without: Without) {
    let (megabytes, name) = (megabytes(bytes), path.display());
    let (samples, lost) = (counted(samples), without.told());
    message::say(&format!("[ bpfperf record: Wrote {megabytes:.3} MB {name} ({samples}{lost}) ]"));
}

fn counted(samples: u64) -> String {
    match samples {
        0 => "no samples".to_owned(),
        1 => "1 sample".to_owned(),
        n => format!("{n} samples"),
    }
}

/// The samples that are not there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Without {
    /// For want of room.
    pub(super) lost: u64,
    /// As a filter was told to.
    pub(super) filtered: u64,
}

impl Without {
    fn told(self) -> String {
        let Self { lost, filtered } = self;
        let lost = if lost == 0 { String::new() } else { format!(", {lost} lost") };
        let filtered =
            if filtered == 0 { String::new() } else { format!(", {filtered} dropped by filters") };
        lost + &filtered
    }
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Tells what the programs of BPF objects have counted.
pub(super) fn tell_values(values: &[ObjectValues]) {
    let mut text = Vec::new();
    // Writing to memory cannot fail.
    if render::header::write_values(values, "", &mut text).is_ok() {
        for line in String::from_utf8_lossy(&text).lines() {
            message::say(line);
        }
    }
}

/// What nobody can find any more and is not in the recording.
fn file_gaps(gaps: FileGaps) -> Option<String> {
    let FileGaps { n_gone, n_too_long, n_unwatched, n_lost, is_late } = gaps;
    let files = |n: u64, why: &str| {
        let noun = if n == 1 { "file" } else { "files" };
        (n != 0).then(|| format!("{n} {noun} {why}"))
    };
    let reasons = [
        files(n_gone, "gone before anyone could look at them"),
        files(n_too_long, "with longer tables of symbols than a recording holds"),
        files(n_unwatched, "more than can be watched at a time"),
        files(n_lost, "mapped while too many others were"),
        is_late.then(|| "files that were to be saved were not read in time".to_owned()),
    ];
    let reasons: Vec<String> = reasons.into_iter().flatten().collect();
    (!reasons.is_empty()).then(|| {
        let reasons = reasons.join(", ");
        format!("{reasons}: what ran in them may have no names, since they cannot be found later")
    })
}

/// What BPF programs wrote that is in no file, a line for each event and reason.
fn left_out(outputs: &[OutputTally]) -> Vec<String> {
    let others = |it: &OutputTally| {
        let n = it.of_others;
        let what = counted(n);
        let text = format!("{what} of other tasks, which are left out; `--all-output` keeps them");
        (n != 0).then_some(text)
    };
    let too_long = |it: &OutputTally| {
        let n = it.too_long;
        let what = if n == 1 { "message" } else { "messages" };
        let text = format!("{n} {what} that no record has room for, which are left out");
        (n != 0).then_some(text)
    };
    let told = outputs.iter().flat_map(|it| {
        let reasons = [others(it), too_long(it)].into_iter().flatten();
        reasons.map(|text| format!("[ bpfperf record: `{}` wrote {text} ]", it.event))
    });
    told.collect()
}

/// What was measured of time off the CPU and could not be kept, in one line.
fn off_cpu(losses: Losses) -> Option<String> {
    let Losses { n_unsummed, unsummed_ns, n_unnoted, n_unseen, n_stackless, n_unfollowed } = losses;
    let seconds = unsummed_ns as f64 / 1e9;
    let counts = [
        (n_unsummed, format!("times off the CPU, {seconds:.3} s in all, found no room")),
        (n_unnoted, "times off the CPU could not be noted".to_owned()),
        (
            n_unseen,
            "times off the CPU ended unseen, and count up to when the task came back by its run time"
                .to_owned(),
        ),
        (n_stackless, "stacks of those off the CPU found no room".to_owned()),
        (n_unfollowed, "processes were not followed off the CPU".to_owned()),
    ];
    let told: Vec<_> =
        counts.iter().filter(|(n, _)| *n != 0).map(|(n, what)| format!("{n} {what}")).collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// What could not be had of BPF programs, in one line.
///
/// Those that were gone again before they could be saved are no news here, since loaders probe the
/// kernel with such, and their names are in the recording all the same: the last line counts them.
fn bpf_gaps(gaps: &BpfGaps) -> Option<String> {
    let BpfGaps { skipped, n_lost, n_unwatched_cpus, ended_early, n_too_long, n_pins, n_processes } =
        gaps;
    let Skipped { n_vanished: _, n_refused, n_failed, n_hidden, n_untyped } = *skipped;
    let counts = [
        (n_refused, "BPF programs may not be asked for"),
        (n_failed, "BPF programs could not be asked for"),
        (n_hidden, "BPF programs are recorded without their addresses, which are hidden"),
        (n_untyped, "BPF programs are recorded without their types"),
        (*n_lost, "loads of BPF programs went by unseen"),
        (*n_unwatched_cpus, "CPUs were not watched for loads of BPF programs up to the end"),
        (*n_too_long, "features are too large for perf's records in a pipe; bpfperf reads them"),
        (*n_pins, "files in bpffs were not looked at"),
        (*n_processes, "processes were not looked at for BPF programs that they hold"),
    ];
    let told = counts.iter().filter(|(n, _)| *n != 0).map(|(n, what)| format!("{n} {what}"));
    let early = ended_early.iter().map(|why| format!("later BPF programs were not saved: {why}"));
    let told: Vec<String> = told.chain(early).collect();
    (!told.is_empty()).then(|| told.join(", "))
}

/// What the last line says of programs of which little more than the name is in the recording.
fn bpf_missed(n_vanished: u64) -> String {
    match n_vanished {
        0 => String::new(),
        1 => ", 1 BPF program gone before it was saved".to_owned(),
        n => format!(", {n} BPF programs gone before they were saved"),
    }
}

/// How many tracepoints, and how many programs of one, are named.
const MOST_NAMED: usize = 3;

/// The programs that may have taken samples from the recording, in one line.
///
/// A program that an event attaches to a tracepoint decides by its return value whether the
/// tracepoint's samples are written, those of all recorders; what it drops is counted nowhere.
fn droppers(tracepoints: &[TracepointPrograms], own: &[u32]) -> Option<String> {
    let mut told = Vec::new();
    for tracepoint in tracepoints {
        let droppers: Vec<_> =
            tracepoint.programs.iter().filter(|it| it.can_drop && !own.contains(&it.id)).collect();
        if droppers.is_empty() {
            continue;
        }
        let names = droppers.iter().map(|it| format!("`{}` (id {})", it.name, it.id));
        let names = some_of(&names.collect::<Vec<_>>());
        let n = match droppers.len() {
            1 => "1 BPF program".to_owned(),
            n => format!("{n} BPF programs"),
        };
        told.push(format!("{n} on `{}`: {names}", tracepoint.event));
    }
    let told = (!told.is_empty()).then(|| some_of(&told))?;
    Some(format!("any of these may have dropped samples of a tracepoint, uncounted: {told}"))
}

/// The first of `items`, and how many more there are.
fn some_of(items: &[String]) -> String {
    let text = items.get(..MOST_NAMED).unwrap_or(items).join(", ");
    match items.len().saturating_sub(MOST_NAMED) {
        0 => text,
        n_left => format!("{text} and {n_left} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_not_in_the_recording_are_told_in_one_line() {
        assert_eq!(file_gaps(FileGaps::default()), None);
        let want = "1 file gone before anyone could look at them, 2 files with longer tables of \
                    symbols than a recording holds: what ran in them may have no names, since they \
                    cannot be found later";
        let gaps = FileGaps { n_gone: 1, n_too_long: 2, ..FileGaps::default() };
        assert_eq!(file_gaps(gaps), Some(want.to_owned()));
    }

    #[test]
    fn programs_that_may_drop_samples_are_told_in_one_line() {
        use crate::perfdata::private::Attached;

        let program =
            |id, can_drop| Attached { id, name: format!("p{id}"), can_drop, ..Attached::default() };
        let on = |event: &str, programs: Vec<Attached>| TracepointPrograms {
            event: event.to_owned(),
            programs,
            ..TracepointPrograms::default()
        };
        assert_eq!(droppers(&[on("a:b", vec![program(1, false)])], &[]), None);
        assert_eq!(droppers(&[on("a:b", vec![program(1, true)])], &[1]), None);
        let five = (1..=5).map(|id| program(id, true)).collect();
        let found = [on("a:b", vec![program(7, true), program(8, false)]), on("c:d", five)];
        assert_eq!(
            droppers(&found, &[]).as_deref(),
            Some(
                "any of these may have dropped samples of a tracepoint, uncounted: \
                 1 BPF program on `a:b`: `p7` (id 7), \
                 5 BPF programs on `c:d`: `p1` (id 1), `p2` (id 2), `p3` (id 3) and 2 more"
            )
        );
    }

    #[test]
    fn what_programs_took_is_told() {
        let of = |tracepoint: Option<&str>, n_dropped| Verdict {
            event: "slow".to_owned(),
            id: 7,
            tracepoint: tracepoint.map(str::to_owned),
            can_drop: true,
            n_dropped,
        };
        assert_eq!(
            verdict(&of(Some("a:b"), Some(2))).as_deref(),
            Some("`slow` took 2 samples of `a:b` from every recorder")
        );
        assert_eq!(verdict(&of(None, Some(0))), None);
        assert_eq!(
            verdict(&of(None, None)).as_deref(),
            Some("`slow` dropped samples that nobody counted")
        );
        assert_eq!(verdict(&Verdict { can_drop: false, ..of(None, Some(2)) }), None);
    }

    #[test]
    fn what_was_written_and_is_left_out_is_told_by_event() {
        let tally = |event: &str, of_others, too_long| OutputTally {
            event: event.to_owned(),
            kept: 7,
            of_others,
            too_long,
        };
        let lines = left_out(&[tally("a", 0, 0), tally("b", 1, 2)]);
        let want = [
            "[ bpfperf record: `b` wrote 1 sample of other tasks, which are left out; \
             `--all-output` keeps them ]",
            "[ bpfperf record: `b` wrote 2 messages that no record has room for, which are left \
             out ]",
        ];
        assert_eq!(lines, want);
    }

    #[test]
    fn what_is_missing_of_programs_is_told_in_one_line() {
        let skipped = Skipped { n_vanished: 9, n_refused: 2, ..Skipped::default() };
        let early = Some("a bug".to_owned());
        let gaps = BpfGaps {
            skipped,
            n_lost: 3,
            n_unwatched_cpus: 4,
            ended_early: early,
            ..BpfGaps::default()
        };
        assert_eq!(
            bpf_gaps(&gaps).as_deref(),
            Some(
                "2 BPF programs may not be asked for, 3 loads of BPF programs went by unseen, \
                 4 CPUs were not watched for loads of BPF programs up to the end, \
                 later BPF programs were not saved: a bug"
            )
        );
        let skipped = Skipped { n_vanished: 9, ..Skipped::default() };
        assert_eq!(bpf_gaps(&BpfGaps { skipped, ..BpfGaps::default() }), None);
        assert_eq!(bpf_missed(skipped.n_vanished), ", 9 BPF programs gone before they were saved");
        assert_eq!(bpf_missed(0), "");
    }
}
