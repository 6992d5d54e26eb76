//! Which functions are meant by what was typed.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::profile::FunctionSamples;
use crate::profile::Place;
use crate::replay::Programs;
use crate::replay::programs::FunctionId;
use crate::replay::programs::ProgramIdx;
use crate::replay::resolved::Resolved;
use crate::units::ProgId;

use super::Failure;

/// A function to be shown, with its name.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) name: String,
    pub(super) samples: FunctionSamples,
}

/// The most names in a hint.
const MAX_NEAR: usize = 3;

/// The functions of `found` that `wanted` names, all if it is `None`, the heaviest first; functions of
/// BPF programs that are named need no samples.
pub(super) fn choose(
    found: Vec<FunctionSamples>,
    resolved: &Resolved,
    programs: &Programs<'_>,
    wanted: Option<&str>,
) -> Result<Vec<Chosen>, Failure> {
    let mut all: Vec<Chosen> = found
        .into_iter()
        .map(|samples| Chosen { name: name(&samples, resolved, programs), samples })
        .collect();
    all.sort_by_key(|it| Reverse(periods(it)));
    let Some(wanted) = wanted else { return Ok(all) };
    let unsampled = unsampled(&all, programs, resolved.events.len());
    let (chosen, others): (Vec<Chosen>, Vec<Chosen>) =
        all.into_iter().chain(unsampled).partition(|it| is_meant(it, programs, wanted));
    if chosen.is_empty() {
        let failure = Failure::new(format!("no function `{wanted}` is in the recording"));
        return Err(match near(wanted, &others, programs).as_slice() {
            [] => failure.hint("`bpfperf report -s sym` lists the functions with samples"),
            names => failure.hint(format!("there is {}", names.join(", "))),
        });
    }
    Ok(chosen)
}

fn periods(chosen: &Chosen) -> Vec<u64> {
    chosen.samples.totals.iter().map(|it| it.period).collect()
}

/// The name of a function as it is shown.
fn name(samples: &FunctionSamples, resolved: &Resolved, programs: &Programs<'_>) -> String {
    if let Some(symbol) = samples.symbol {
        return resolved.symbols[symbol.0 as usize].name.clone();
    }
    match samples.place {
        Place::Bpf(id) => symbol_name(id, programs),
        Place::Image(_) | Place::Mapped { .. } => String::new(),
    }
}

fn symbol_name(id: FunctionId, programs: &Programs<'_>) -> String {
    let function = programs.program(id.program).functions.get(id.function as usize);
    function.map_or_else(String::new, |it| String::from_utf8_lossy(&it.name).into_owned())
}

/// The functions of BPF programs that have no samples.
fn unsampled(sampled: &[Chosen], programs: &Programs<'_>, n_events: usize) -> Vec<Chosen> {
    let sampled: BTreeSet<FunctionId> = sampled
        .iter()
        .filter_map(|it| match it.samples.place {
            Place::Bpf(id) => Some(id),
            Place::Image(_) | Place::Mapped { .. } => None,
        })
        .collect();
    let functions = (0..).map(ProgramIdx).zip(programs.all()).flat_map(|(program, it)| {
        (0..).zip(&it.functions).map(move |(function, _)| FunctionId { program, function })
    });
    functions
        .filter(|it| !sampled.contains(it))
        .map(|id| Chosen {
            name: symbol_name(id, programs),
            samples: FunctionSamples::none(Place::Bpf(id), n_events),
        })
        .collect()
}

/// Whether `wanted` means the function: by its symbol, a BPF function's own name, or its program's id.
fn is_meant(chosen: &Chosen, programs: &Programs<'_>, wanted: &str) -> bool {
    if chosen.name == wanted {
        return true;
    }
    let Place::Bpf(id) = chosen.samples.place else { return false };
    let program_id = wanted.strip_prefix("bpf:").and_then(|it| it.parse().ok()).map(ProgId);
    if program_id.is_some() {
        return programs.program(id.program).id == program_id;
    }
    own_name(&chosen.name) == wanted
}

/// What the author of a BPF function called it: the symbol less `bpf_prog_` and the tag.
fn own_name(symbol: &str) -> &str {
    let rest = symbol.strip_prefix("bpf_prog_").and_then(|it| it.split_once('_'));
    match rest {
        Some((tag, name)) if tag.len() == 16 => name,
        _ => symbol,
    }
}

/// Names that are much like `wanted`, the most like it first.
fn near(wanted: &str, others: &[Chosen], programs: &Programs<'_>) -> Vec<String> {
    if wanted.starts_with("bpf:") {
        let mut ids: Vec<u32> =
            programs.all().iter().filter_map(|it| it.id).map(|it| it.0).collect();
        ids.dedup();
        return ids.iter().take(MAX_NEAR).map(|it| format!("`bpf:{it}`")).collect();
    }
    let lower = wanted.to_lowercase();
    let distance = |name: &str| {
        let name = name.to_lowercase();
        let holds = !lower.is_empty()
            && (name.contains(&lower) || lower.contains(&name) && !name.is_empty());
        if holds { 0 } else { edits(&lower, &name) }
    };
    let mut names: Vec<(usize, &str)> = others
        .iter()
        .map(|it| (distance(own_name(&it.name)).min(distance(&it.name)), it.name.as_str()))
        .filter(|(distance, _)| *distance <= (wanted.chars().count() / 3).max(1))
        .collect();
    names.sort_by_key(|(distance, _)| *distance);
    names.dedup_by_key(|(_, name)| *name);
    names.iter().take(MAX_NEAR).map(|(_, name)| format!("`{name}`")).collect()
}

/// How many letters have to be changed, added or left out to come from `a` to `b` (Levenshtein's
/// distance); names of very different lengths are not looked at.
fn edits(a: &str, b: &str) -> usize {
    const LONGEST: usize = 128;
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    if LONGEST < a.len() || LONGEST < b.len() {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bpf_function_has_a_name_of_its_own() {
        assert_eq!(own_name("bpf_prog_07df9015606e4140_handle_this"), "handle_this");
        assert_eq!(own_name("bpf_prog_07df9015606e4140"), "bpf_prog_07df9015606e4140");
        assert_eq!(own_name("bpf_prog_get"), "bpf_prog_get");
        assert_eq!(own_name("main"), "main");
    }

    #[test]
    fn names_are_as_far_apart_as_the_letters_to_be_typed() {
        assert_eq!(edits("kitten", "sitting"), 3);
        assert_eq!(edits("", "abc"), 3);
        assert_eq!(edits("abc", "abc"), 0);
        assert_eq!(edits(&"x".repeat(200), "x"), usize::MAX);
    }

    #[test]
    fn near_names_are_few_and_the_nearest_come_first() {
        let chosen = |name: &str| Chosen {
            name: name.to_owned(),
            samples: FunctionSamples::none(Place::Image(0), 1),
        };
        let names =
            ["bpf_prog_07df9015606e4140_hot_main", "hot_mian", "cold", "hat_main", "hot_men"];
        let others: Vec<Chosen> = names.into_iter().map(chosen).collect();
        let found = near("hot_man", &others, &Programs::default());
        assert_eq!(found.len(), MAX_NEAR);
        assert!(!found.contains(&"`cold`".to_owned()), "{found:?}");
        let found = near("hot_main", &others, &Programs::default());
        assert_eq!(found[0], "`bpf_prog_07df9015606e4140_hot_main`");
    }
}
