//! Where file systems of a kind are mounted.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// The mount points of file systems of the kind `kind`, in text as of `/proc/self/mounts`.
pub(super) fn of_kind<'a>(mounts: &'a str, kind: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
    mounts.lines().filter_map(move |line| {
        let mut words = line.split(' ');
        let path = words.nth(1)?;
        (words.next()? == kind).then(|| unescape(path))
    })
}

/// The kernel writes blanks, tabs, line ends and backslashes as `\040`.
fn unescape(text: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let octal = || {
            let digits = after.get(..3).filter(|_| byte == b'\\')?;
            u8::from_str_radix(str::from_utf8(digits).ok()?, 8).ok()
        };
        let (byte, n_digits) = octal().map_or((byte, 0), |it| (it, 3));
        bytes.push(byte);
        rest = after.get(n_digits..).unwrap_or_default();
    }
    OsString::from_vec(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_kind_whatever_stands_in_their_paths() {
        let mounts = "proc /proc proc rw 0 0\n\
                      bpf /sys/fs/bpf bpf rw,nosuid 0 0\n\
                      none /a\\040b\\134c bpf rw 0 0\n\
                      bpf\n\
                      none /x\\9 bpf rw 0 0\n";
        let found: Vec<_> = of_kind(mounts, "bpf").collect();
        let want = ["/sys/fs/bpf", "/a b\\c", "/x\\9"].map(PathBuf::from);
        assert_eq!(found, want);
    }
}
