//! What is typed after `bpfperf inject` beside what most people type.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use crate::units::BuildId;

use super::message::Failure;

/// Build ids by path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct KnownBuildIds(Arc<BTreeMap<Vec<u8>, BuildId>>);

impl KnownBuildIds {
    /// That of the file at `path`.
    pub(super) fn of(&self, path: &[u8]) -> Option<BuildId> {
        self.0.get(path).copied()
    }
}

/// Source: `perf_inject__parse_known_build_ids()` in `tools/perf/builtin-inject.c`.
pub(super) fn known_build_ids(text: &str) -> Result<KnownBuildIds, String> {
    let entries = match text.strip_prefix("file://") {
        Some(path) => {
            let bytes = fs::read(path).map_err(|error| format!("`{path}`: {error}"))?;
            bytes.split(|it| *it == b'\n').map(<[u8]>::to_vec).collect()
        }
        None => text.split(',').map(|it| it.as_bytes().to_vec()).collect::<Vec<_>>(),
    };
    let mut ids = BTreeMap::new();
    for entry in entries.iter().map(|it| it.trim_ascii()).filter(|it| !it.is_empty()) {
        let (id, path) = entry_of(entry).ok_or_else(|| {
            format!("`{}` is no build id and path", String::from_utf8_lossy(entry))
        })?;
        ids.insert(path.to_vec(), id);
    }
    Ok(KnownBuildIds(Arc::new(ids)))
}

fn entry_of(entry: &[u8]) -> Option<(BuildId, &[u8])> {
    let end = entry.iter().position(u8::is_ascii_whitespace)?;
    let (id, path) = entry.split_at_checked(end)?;
    Some((build_id(id)?, path.trim_ascii_start()))
}

/// A build id in hexadecimal digits.
fn build_id(digits: &[u8]) -> Option<BuildId> {
    let byte = |pair: &[u8]| {
        let digit = |it: u8| char::from(it).to_digit(16);
        let &[high, low] = pair else { return None };
        u8::try_from(16 * digit(high)? + digit(low)?).ok()
    };
    BuildId::new(&digits.chunks(2).map(byte).collect::<Option<Vec<u8>>>()?)
}

/// What perf can and this version cannot.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Refused {
    #[arg(long, hide = true)]
    strip: bool,
    #[arg(long, hide = true, value_name = "OPTS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    itrace: Option<String>,
    #[arg(long, hide = true, value_name = "OPTS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    vm_time_correlation: Option<String>,
    #[arg(long, hide = true, value_name = "OPTS", num_args = 0..=1, require_equals = true, default_missing_value = "")]
    guest_data: Option<String>,
    #[arg(long, hide = true)]
    aslr: bool,
}

impl Refused {
    /// Says why not.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let Self { strip, itrace, vm_time_correlation, guest_data, aslr } = self;
        let traces = "traces of hardware are not decoded";
        let cannot = [
            (itrace.is_some(), "make events of traces", traces),
            (*strip, "strip events", "only events of hardware traces have others in their place"),
            (vm_time_correlation.is_some(), "correlate the times of guests", traces),
            (guest_data.is_some(), "merge a guest's recording", "the two have different clocks"),
            (*aslr, "move addresses", "names would have to be moved with them"),
        ];
        match cannot.into_iter().find(|it| it.0) {
            Some((_, what, why)) => Err(Failure::new(format!("cannot {what}")).cause(why)),
            None => Ok(()),
        }
    }
}

/// What is taken for the habit of it: where names come from, which nothing here needs, and how stacks
/// are unwound, which there is one way for.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Habits {
    #[arg(short = 'k', long, hide = true, value_name = "FILE")]
    vmlinux: Option<PathBuf>,
    #[arg(long, hide = true)]
    ignore_vmlinux: bool,
    #[arg(long, hide = true, value_name = "FILE")]
    kallsyms: Option<PathBuf>,
    #[arg(long, hide = true, value_name = "DIR")]
    guestmount: Option<PathBuf>,
    #[arg(long, hide = true, value_name = "STYLE")]
    unwind_style: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_build_ids_stand_before_their_paths() {
        let known = known_build_ids("0123 /a b, 45 /c,").unwrap();
        assert_eq!(known.of(b"/a b"), BuildId::new(&[1, 0x23]));
        assert_eq!(known.of(b"/c"), BuildId::new(&[0x45]));
        assert_eq!(known.of(b"/d"), None);
        assert_eq!(known_build_ids("012 /a").unwrap_err(), "`012 /a` is no build id and path");
        assert_eq!(known_build_ids("0123").unwrap_err(), "`0123` is no build id and path");
        assert_eq!(known_build_ids("xyz /a").unwrap_err(), "`xyz /a` is no build id and path");
    }
}
