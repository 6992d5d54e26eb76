//! The files that belong to the debug information of another: what several share (dwz), and what the
//! compiler left in files of its own (split DWARF).

use std::ffi::OsStr;
use std::ffi::OsString;
use std::fmt;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use crate::symbols::Artifact;
use crate::symbols::Files;
use crate::symbols::Identity;
use crate::symbols::build_id::is_same_build;
use crate::symbols::find::FileSet;
use crate::symbols::places::Root;
use crate::units::BuildId;

use super::ElfFile;
use super::OwnedBytes;

/// Opens files of the kind that belong to a module.
type Open = Arc<dyn Fn(&Path) -> Option<OwnedBytes> + Send + Sync>;

/// Has debug information brought from elsewhere.
type Fetch = Arc<dyn Fn(BuildId) -> Option<PathBuf> + Send + Sync>;

/// Finds the files that belong to the debug information in a module's files.
pub(super) struct Belonging {
    open: Open,
    fetch: Fetch,
    /// Where the paths in the debug information begin.
    roots: Vec<Root>,
    /// The module's file itself, as it was found.
    at: PathBuf,
    /// The module's path, in the eyes of whoever mapped it.
    path: PathBuf,
}

impl fmt::Debug for Belonging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Belonging").field("at", &self.at).finish_non_exhaustive()
    }
}

impl Belonging {
    /// What belongs to the file that was `found` and to the one with its debug information.
    pub(super) fn to<F: Files + Clone + 'static>(found: &FileSet<'_, F>) -> Self {
        let files = found.files.clone();
        let open = move |path: &Path| {
            let bytes = files.open(path).ok()?.bytes;
            Some(Arc::new(bytes) as OwnedBytes)
        };
        let files = found.files.clone();
        let fetch = Arc::new(move |id| files.fetch(id, Artifact::DebugInfo));
        let mut roots = vec![found.root.clone()];
        roots.extend(found.own_root());
        let (at, path) = (found.at.clone(), found.path.clone());
        Self { open: Arc::new(open), fetch, roots, at, path }
    }

    /// The files themselves, that with the debug information, which is at `debug`, first.
    fn paths<'p>(&'p self, debug: Option<&'p Path>) -> impl Iterator<Item = &'p Path> {
        debug.into_iter().chain([self.at.as_path()])
    }

    /// The file that `debug`, which is at `debug_at` where it is another than the module's, shares debug
    /// information with, if that is the right one.
    ///
    /// Source: `dwz(1)`; `.gnu_debugaltlink` is a path, a zero and a build id.
    pub(super) fn supplement(&self, debug: &ElfFile, debug_at: Option<&Path>) -> Option<ElfFile> {
        let link = debug.section(".gnu_debugaltlink")?.bytes;
        let end = link.iter().position(|&byte| byte == 0)?;
        let (name, rest) = link.split_at_checked(end)?;
        let build_id = BuildId::new(rest.get(1..)?)?;
        let name = Path::new(OsStr::from_bytes(name));
        let hex = build_id.to_string();
        let (first, rest) = hex.split_at_checked(2)?;
        let by_id = PathBuf::from(format!("/usr/lib/debug/.build-id/{first}/{rest}.debug"));
        let mut sought = Vec::new();
        if name.is_relative() {
            sought.extend(self.paths(debug_at).filter_map(|it| Some(it.parent()?.join(name))));
        } else {
            sought.extend(self.roots.iter().map(|it| it.at(name)));
        }
        sought.extend(self.roots.iter().map(|it| it.at(&by_id)));
        // The link may be from a place that is itself a link.
        let mut parts = name.iter();
        if parts.any(|it| it == ".dwz") {
            let below = Path::new("/usr/lib/debug/.dwz").join(parts.as_path());
            sought.extend(self.roots.iter().map(|it| it.at(&below)));
        }
        let fetched = std::iter::once_with(|| (self.fetch)(build_id)).flatten();
        sought.into_iter().chain(fetched).find_map(|path| {
            let bytes = (self.open)(&path)?;
            let found = Identity::of(&bytes).ok()?.build_id?;
            if is_same_build(found, build_id) { ElfFile::parse(bytes).ok() } else { None }
        })
    }

    /// The package of all that the compiler of `debug` left in files of its own. Each unit says which
    /// part of it is its own, so that another package does no harm.
    pub(super) fn package(&self, debug: &ElfFile, debug_at: Option<&Path>) -> Option<ElfFile> {
        // Without a table of addresses nothing was left elsewhere.
        debug.section(".debug_addr").or_else(|| debug.section(".debug_gnu_pubnames"))?;
        let with_suffix = |path: &Path| {
            let mut path = OsString::from(path);
            path.push(".dwp");
            PathBuf::from(path)
        };
        let below = Path::new("/usr/lib/debug").join(self.path.strip_prefix("/").ok()?);
        let sought = self.paths(debug_at).map(with_suffix);
        let sought = sought.chain(self.roots.iter().map(|it| with_suffix(&it.at(&self.path))));
        let mut sought = sought.chain(self.roots.iter().map(|it| with_suffix(&it.at(&below))));
        sought.find_map(|path| ElfFile::parse((self.open)(&path)?).ok())
    }

    /// The file `name` that the compiler left in `folder`, or beside the module.
    pub(super) fn unit(
        &self,
        debug_at: Option<&Path>,
        folder: &[u8],
        name: &[u8],
    ) -> Option<ElfFile> {
        let name = Path::new(OsStr::from_bytes(name));
        let path = Path::new(OsStr::from_bytes(folder)).join(name);
        let sought = self.roots.iter().map(|it| it.at(&path));
        let paths = self.paths(debug_at);
        let beside = paths.filter_map(|it| Some(it.parent()?.join(name.file_name()?)));
        sought.chain(beside).find_map(|path| ElfFile::parse((self.open)(&path)?).ok())
    }
}
