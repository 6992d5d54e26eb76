//! What is old goes from the cache of debug information, as the client of elfutils has it.

use std::fs;
use std::io;
use std::io::Read as _;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;
use std::time::SystemTime;

/// How often the cache is looked through for what is old, unless it says otherwise itself.
const CLEAN_INTERVAL: Duration = Duration::from_secs(86_400);
/// How long a file stays there that nobody uses, unless it says otherwise itself.
const MAX_UNUSED: Duration = Duration::from_secs(604_800);

/// Takes from `cache` what nobody used for a week, if that was not done for a day, as the client of elfutils does;
/// what broke off while it was fetched is among it. Its files say so for another number of seconds.
///
/// Source: `debuginfod_clean_cache()` in `debuginfod/debuginfod-client.c`.
pub(super) fn clean(cache: &Path, now: SystemTime) -> io::Result<()> {
    // Whoever else may write there could have anything removed.
    let own = nix::unistd::geteuid().as_raw();
    let place = fs::symlink_metadata(cache)?;
    if !place.is_dir() || place.uid() != own || place.mode() & 0o022 != 0 {
        return Ok(());
    }
    let age = |it: io::Result<SystemTime>| now.duration_since(it.ok()?).ok();
    let interval_at = cache.join("cache_clean_interval_s");
    let interval = seconds_in(&interval_at).unwrap_or(CLEAN_INTERVAL);
    let last = fs::symlink_metadata(&interval_at).and_then(|it| it.modified());
    if age(last).is_some_and(|it| it < interval) {
        return Ok(());
    }
    let mut options = fs::File::options();
    let options = options.create(true).append(true).custom_flags(libc::O_NOFOLLOW);
    let mut word = options.open(&interval_at)?;
    if word.metadata()?.len() == 0 {
        writeln!(word, "{}", CLEAN_INTERVAL.as_secs())?;
    }
    word.set_modified(now)?;
    let unused = seconds_in(&cache.join("max_unused_age_s")).unwrap_or(MAX_UNUSED);
    for folder in fs::read_dir(cache)?.flatten() {
        let is_id = folder.file_name().as_bytes().iter().all(u8::is_ascii_hexdigit);
        if !is_id || !folder.file_type().is_ok_and(|it| it.is_dir()) {
            continue;
        }
        for file in fs::read_dir(folder.path())?.flatten() {
            let Ok(facts) = file.metadata() else { continue };
            let is_old = |it| age(it).is_some_and(|it| unused < it);
            if facts.is_file() && is_old(facts.accessed()) && is_old(facts.modified()) {
                fs::remove_file(file.path())?;
            }
        }
        // Where something is left it stays.
        _ = fs::remove_dir(folder.path());
    }
    Ok(())
}

/// The number of seconds that the file at `path` holds.
fn seconds_in(path: &Path) -> Option<Duration> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = fs::File::options().read(true).custom_flags(flags).open(path).ok()?;
    let mut text = String::new();
    file.take(32).read_to_string(&mut text).ok()?;
    text.trim().parse().ok().map(Duration::from_secs)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_nobody_used_for_a_week_is_taken_from_the_cache_once_a_day() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        let now = SystemTime::now();
        let file = |path: &str, days: u64| {
            fs::create_dir_all(at(path).parent().unwrap()).unwrap();
            fs::write(at(path), "x").unwrap();
            let when = now - Duration::from_secs(days * 86_400);
            let times = fs::FileTimes::new().set_accessed(when).set_modified(when);
            fs::File::options().append(true).open(at(path)).unwrap().set_times(times).unwrap();
        };
        let fill = || {
            file("00ff/debuginfo", 6);
            file("00ff/.tmpAbCdEf", 8);
            file("00fe/executable", 8);
            file("notes/kept", 8);
        };
        let left = || {
            let all = ["00ff/debuginfo", "00ff/.tmpAbCdEf", "00fe", "notes/kept"];
            all.map(|it| at(it).exists())
        };
        fill();
        clean(dir.path(), now).unwrap();
        assert_eq!(left(), [true, false, false, true]);
        // Not again so soon.
        fill();
        clean(dir.path(), now + Duration::from_secs(80_000)).unwrap();
        assert_eq!(left(), [true; 4]);
        fs::write(at("cache_clean_interval_s"), "0").unwrap();
        fs::write(at("max_unused_age_s"), "100").unwrap();
        clean(dir.path(), now).unwrap();
        assert_eq!(left(), [false, false, false, true]);
        // What others may write to is left alone.
        fill();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        clean(dir.path(), now).unwrap();
        assert_eq!(left(), [true; 4]);
    }
}
