//! Where the names of a recording's addresses are looked for, as far as the user says.

use std::env;
use std::fs;
use std::path::Path;
use std::path::PathBuf;

use crate::symbols::Layout;
use crate::symbols::Symfs;

/// What is typed about it.
#[derive(Clone, Debug, Default, clap::Args)]
pub(super) struct SymbolOptions {
    /// Look for files below this directory, that has those of the recorded machine: by their whole
    /// paths, or with `,flat` by their names alone.
    #[arg(long, value_name = "DIR[,LAYOUT]", value_parser = parse_symfs)]
    symfs: Option<Symfs>,

    /// Look for files by build id in this store of perf's (`buildid.dir` of perf's configuration, or
    /// `~/.debug`).
    #[arg(long, value_name = "DIR")]
    buildid_dir: Option<PathBuf>,
}

impl SymbolOptions {
    /// The directory that has the files of the recorded machine.
    pub(super) fn symfs(&self) -> Option<Symfs> {
        self.symfs.clone()
    }

    /// perf's store of files.
    pub(super) fn store(&self) -> Option<PathBuf> {
        self.buildid_dir.clone().or_else(|| {
            let home = env::home_dir()?;
            Some(configured_store(&home).unwrap_or_else(|| home.join(".debug")))
        })
    }
}

/// Source: `symbol__config_symfs()` in `tools/perf/util/symbol.c`.
fn parse_symfs(text: &str) -> Result<Symfs, String> {
    let (dir, layout) = match text.split_once(',') {
        None | Some((_, "hierarchy")) => (text.strip_suffix(",hierarchy"), Layout::Hierarchy),
        Some((dir, "flat")) => (Some(dir), Layout::Flat),
        Some((_, layout)) => {
            return Err(format!("`{layout}` is no layout, `hierarchy` and `flat` are"));
        }
    };
    let dir = PathBuf::from(dir.unwrap_or(text));
    if dir.is_dir() { Ok(Symfs { dir, layout }) } else { Err("it is no directory".to_owned()) }
}

/// The setting `buildid.dir` of the user or, beneath it, of the system.
///
/// Source: `perf_buildid_config()` in `tools/perf/util/config.c`.
fn configured_store(home: &Path) -> Option<PathBuf> {
    let only = env::var_os("PERF_CONFIG").map(PathBuf::from);
    let all = [home.join(".perfconfig"), PathBuf::from("/etc/perfconfig")];
    let files = only.as_ref().map_or(all.as_slice(), std::slice::from_ref);
    let dir = files.iter().find_map(|it| buildid_dir(&fs::read_to_string(it).ok()?))?;
    Some(match dir.strip_prefix("~/") {
        Some(rest) => home.join(rest),
        None => PathBuf::from(dir),
    })
}

/// The value of `dir` in the section `buildid` of a configuration, the last one if there are more.
fn buildid_dir(text: &str) -> Option<String> {
    let mut section = "";
    let mut dir = None;
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix('[').and_then(|it| it.split(']').next()) {
            section = name.trim();
        } else if let Some((key, value)) = line.split_once('=')
            && section.eq_ignore_ascii_case("buildid")
            && key.trim().eq_ignore_ascii_case("dir")
        {
            let value = value.split(['#', ';']).next().unwrap_or_default();
            dir = Some(value.trim().trim_matches('"').to_owned());
        }
    }
    dir.filter(|it| !it.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_of_files_has_a_layout() {
        let symfs = |layout| Ok(Symfs { dir: "/proc".into(), layout });
        assert_eq!(parse_symfs("/proc"), symfs(Layout::Hierarchy));
        assert_eq!(parse_symfs("/proc,hierarchy"), symfs(Layout::Hierarchy));
        assert_eq!(parse_symfs("/proc,flat"), symfs(Layout::Flat));
        assert!(parse_symfs("/proc,round").is_err());
        assert!(parse_symfs("/nonexistent").is_err());
    }

    #[test]
    fn the_store_is_set_in_the_section_of_build_ids() {
        let text =
            "# mine\n[report]\ndir = /no\n[buildid]\n\tdir = /var/cache/b # here\n[top]\ndir=/no";
        assert_eq!(buildid_dir(text).as_deref(), Some("/var/cache/b"));
        assert_eq!(buildid_dir("[buildid]\ndir = \"~/x\"\n").as_deref(), Some("~/x"));
        assert_eq!(buildid_dir("[other]\ndir = x\n[buildid]\ndirs = y\n"), None);
    }
}
