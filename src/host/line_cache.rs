//! What was found in debug information, kept on disk by build id.
//!
//! *In* and *out*: texts, of which this knows nothing. Only what nobody else can have written is read, a
//! text is there as a whole or not at all, and all of them together are bounded: the least recently
//! used are dropped.

use std::env;
use std::fs;
use std::fs::DirBuilder;
use std::fs::File;
use std::fs::Metadata;
use std::io;
use std::io::Read as _;
use std::io::Write as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::path::PathBuf;
use std::time::SystemTime;

use nix::unistd::geteuid;
use tempfile::NamedTempFile;

use crate::units::BuildId;

/// The most bytes that are kept, all texts together.
const MAX_BYTES: u64 = 256 << 20;
/// The most bytes of one text.
const MAX_TEXT: u64 = 64 << 20;

/// A folder of texts by build id.
#[derive(Clone, Debug)]
pub struct LineCache {
    folder: PathBuf,
    max_bytes: u64,
}

impl LineCache {
    /// The cache of whoever runs this, `~/.cache/bpfperf/lines`; `None` where no home is told.
    pub fn of_user() -> Option<Self> {
        let set = env::var_os("XDG_CACHE_HOME").map(PathBuf::from).filter(|it| it.is_absolute());
        let caches = set.or_else(|| Some(env::home_dir()?.join(".cache")))?;
        let folder = caches.join("bpfperf/lines");
        folder.is_absolute().then_some(Self { folder, max_bytes: MAX_BYTES })
    }

    /// What was kept for `build_id`.
    pub fn read(&self, build_id: BuildId) -> Option<Vec<u8>> {
        is_private(&fs::symlink_metadata(&self.folder).ok()?).then_some(())?;
        let path = self.path(build_id);
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = File::options().read(true).custom_flags(flags).open(path).ok()?;
        let metadata = file.metadata().ok()?;
        (metadata.is_file() && is_private(&metadata)).then_some(())?;
        let mut text = Vec::new();
        (&file).take(MAX_TEXT).read_to_end(&mut text).ok()?;
        // It was used: others are dropped before it.
        file.set_modified(SystemTime::now()).ok();
        Some(text)
    }

    /// Keeps `text` for `build_id`, in the place of what was there.
    ///
    /// # Errors
    ///
    /// What the system says; [`io::ErrorKind::PermissionDenied`] where the folder, or the one that it
    /// would be made in, is another one's, [`io::ErrorKind::FileTooLarge`] for what is too long.
    pub fn write(&self, build_id: BuildId, text: &[u8]) -> io::Result<()> {
        if MAX_TEXT.min(self.max_bytes) <= text.len() as u64 {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.make_folder()?;
        let mut file = NamedTempFile::new_in(&self.folder)?;
        file.write_all(text)?;
        file.persist(self.path(build_id))?;
        self.drop_oldest()
    }

    fn path(&self, build_id: BuildId) -> PathBuf {
        self.folder.join(build_id.to_string())
    }

    fn make_folder(&self) -> io::Result<()> {
        let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
        match fs::symlink_metadata(&self.folder) {
            Ok(it) if it.is_dir() && is_private(&it) => return Ok(()),
            Ok(_) => return Err(denied()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        // Under sudo the home may be another user's, who must not find root's files in it.
        let made_in = self.folder.ancestors().skip(1).find_map(|it| fs::metadata(it).ok());
        if made_in.is_none_or(|it| it.uid() != geteuid().as_raw()) {
            return Err(denied());
        }
        DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)
    }

    /// Drops what was used least recently, until the rest is within bounds.
    fn drop_oldest(&self) -> io::Result<()> {
        let used = |path: &Path| {
            let metadata = fs::symlink_metadata(path).ok()?;
            Some((metadata.modified().ok()?, metadata.len()))
        };
        let paths = fs::read_dir(&self.folder)?.flatten().map(|it| it.path());
        let mut texts: Vec<_> = paths.filter_map(|it| Some((used(&it)?, it))).collect();
        texts.sort();
        let mut n_bytes = texts.iter().fold(0_u64, |sum, ((_, len), _)| sum.saturating_add(*len));
        for ((_, len), path) in texts {
            if n_bytes <= self.max_bytes {
                break;
            }
            // Another one may have dropped it.
            fs::remove_file(path).ok();
            n_bytes = n_bytes.saturating_sub(len);
        }
        Ok(())
    }
}

/// Whether it is ours, and nobody else can write to it.
fn is_private(metadata: &Metadata) -> bool {
    metadata.uid() == geteuid().as_raw() && metadata.mode() & 0o022 == 0
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;
    use std::os::unix::fs::symlink;
    use std::thread;
    use std::time::Duration;

    use tempfile::TempDir;

    use super::*;

    fn cache(dir: &TempDir) -> LineCache {
        LineCache { folder: dir.path().join("a/lines"), max_bytes: 100 }
    }

    fn id(byte: u8) -> BuildId {
        BuildId::new(&[byte; 20]).unwrap()
    }

    #[test]
    fn what_is_kept_is_read_again_and_nobody_else_may_look() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(&dir);
        assert_eq!(cache.read(id(1)), None);
        cache.write(id(1), b"one").unwrap();
        cache.write(id(1), b"two").unwrap();
        assert_eq!(cache.read(id(1)).as_deref(), Some(b"two".as_slice()));
        assert_eq!(cache.read(id(2)), None);
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        assert_eq!((mode(&cache.folder), mode(&cache.path(id(1)))), (0o700, 0o600));
        assert_eq!(fs::read_dir(&cache.folder).unwrap().count(), 1);
    }

    #[test]
    fn what_others_could_have_written_is_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(&dir);
        cache.write(id(1), b"one").unwrap();
        let (path, elsewhere) = (cache.path(id(1)), dir.path().join("elsewhere"));
        let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
        mode(&path, 0o666).unwrap();
        assert_eq!(cache.read(id(1)), None);
        mode(&path, 0o600).unwrap();
        assert!(cache.read(id(1)).is_some());
        fs::rename(&path, &elsewhere).unwrap();
        symlink(&elsewhere, &path).unwrap();
        assert_eq!(cache.read(id(1)), None);
        cache.write(id(1), b"new").unwrap();
        assert_eq!(fs::read(&elsewhere).unwrap(), b"one");
        mode(&cache.folder, 0o777).unwrap();
        assert_eq!(cache.read(id(1)), None);
        let denied = cache.write(id(1), b"two").unwrap_err();
        assert_eq!(denied.kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_fifo_is_not_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(&dir);
        cache.write(id(1), b"one").unwrap();
        let mode = nix::sys::stat::Mode::S_IRWXU;
        nix::unistd::mkfifo(&cache.path(id(2)), mode).unwrap();
        assert_eq!(cache.read(id(2)), None);
    }

    #[test]
    fn the_least_recently_used_are_dropped() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(&dir);
        let age = |byte, seconds| {
            let file = File::options().write(true).open(cache.path(id(byte))).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
        };
        for byte in 1..=3 {
            cache.write(id(byte), &[byte; 30]).unwrap();
            age(byte, 100 - u64::from(byte));
        }
        assert!(cache.read(id(1)).is_some());
        cache.write(id(4), &[4; 30]).unwrap();
        let left: Vec<bool> = (1..=4).map(|it| cache.path(id(it)).exists()).collect();
        assert_eq!(left, [true, false, true, true]);
        assert!(cache.write(id(5), &[5; 100]).is_err());
    }

    #[test]
    fn of_two_writers_one_is_there_as_a_whole() {
        let dir = tempfile::tempdir().unwrap();
        let cache = cache(&dir);
        cache.write(id(1), &[0; 40]).unwrap();
        thread::scope(|scope| {
            for byte in [1, 2] {
                let cache = &cache;
                scope.spawn(move || {
                    for _ in 0..100 {
                        cache.write(id(1), &[byte; 40]).ok();
                    }
                });
            }
            for _ in 0..100 {
                let text = cache.read(id(1)).unwrap_or(vec![7; 40]);
                assert!(text.len() == 40 && text.iter().all(|it| *it == text[0]), "{text:?}");
            }
        });
    }

    #[test]
    fn where_nothing_can_be_written_nothing_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let cache = LineCache { folder: dir.path().join("file/lines"), max_bytes: 100 };
        fs::write(dir.path().join("file"), "").unwrap();
        assert!(cache.write(id(1), b"one").is_err());
        assert_eq!(cache.read(id(1)), None);
    }
}
