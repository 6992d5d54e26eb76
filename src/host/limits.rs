//! What a process may have at most.

use std::fs;

use nix::sys::resource::Resource;
use nix::sys::resource::getrlimit;
use nix::sys::resource::setrlimit;

/// How many more files may be opened, or `None` where nobody tells.
pub fn free_files() -> Option<usize> {
    let (soft, _) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    let n_open = fs::read_dir("/proc/self/fd").ok()?.count();
    Some(usize::try_from(soft).unwrap_or(usize::MAX).saturating_sub(n_open))
}

/// Raises the number of files that may be open to the most that is allowed, and says what it was,
/// soft and hard; `None` where that is refused.
pub fn raise_open_files() -> Option<(u64, u64)> {
    let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).ok()?;
    setrlimit(Resource::RLIMIT_NOFILE, hard, hard).ok()?;
    Some((soft, hard))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_open_is_not_free() {
        // Others open and close files meanwhile, but not so many.
        let before = free_files().unwrap();
        let held: Vec<_> = (0..64).map(|_| fs::File::open("/dev/null").unwrap()).collect();
        assert!(free_files().unwrap() + 32 < before);
        drop(held);
    }
}
