//! `vmlinux.h`, the kernel's types as C, as far as a source can use them.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;

use nix::errno::Errno;

use super::Error;
use crate::bpf::objects::heard;
use crate::btf::Btf;
use crate::sys::Refused;
use crate::sys::btf_dump;

/// Where the kernel tells its types.
const TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Words that headers of libbpf use whatever a source says.
const ALWAYS: [&str; 11] = [
    "__u8", "__u16", "__u32", "__u64", "__s8", "__s16", "__s32", "__s64", "__be16", "__be32",
    "__wsum",
];

/// The header of libbpf that declares every helper of the kernel: what it names, nobody need use.
const HELPERS: &[u8] = b"/bpf_helper_defs.h\"";

/// Whether the header at `path` was included somewhere in what a preprocessor wrote.
pub(super) fn is_included(preprocessed: &[u8], path: &Path) -> bool {
    let quoted = [b"\"", path.as_os_str().as_encoded_bytes(), b"\""].concat();
    preprocessed
        .split(|&it| it == b'\n')
        .any(|line| line.starts_with(b"# ") && line.windows(quoted.len()).any(|it| it == quoted))
}

/// A `vmlinux.h` with what the preprocessed source can use.
pub(super) fn header(preprocessed: &[u8]) -> Result<String, Error> {
    let bytes = fs::read(TYPES).map_err(Error::NoTypes)?;
    let btf = Btf::parse(bytes).map_err(|it| Error::NoTypes(io::Error::other(it)))?;
    let mut words = words(preprocessed);
    words.extend(ALWAYS.iter().map(|it| it.as_bytes()));
    let ids = btf.named(&words);
    let (text, log) = heard(|| btf_dump::to_c(btf.as_bytes(), &ids));
    log.lines.iter().for_each(|line| tracing::debug!("{line}"));
    let text = text.map_err(Error::BadTypes)?;
    tracing::debug!(types = ids.len(), bytes = text.len(), "vmlinux.h");
    if text.is_empty() {
        // A kernel has integers at least.
        return Err(Error::BadTypes(Refused::new("write the types", Errno::ENODATA)));
    }
    Ok(around(&text))
}

/// `types` with what `bpftool btf dump` writes around them.
///
/// Source: `dump_btf_c()` in `tools/bpf/bpftool/btf.c`.
pub(super) fn around(types: &str) -> String {
    format!(
        "#ifndef __VMLINUX_H__\n#define __VMLINUX_H__\n\n\
         #ifndef BPF_NO_PRESERVE_ACCESS_INDEX\n\
         #pragma clang attribute push (__attribute__((preserve_access_index)), apply_to = record)\n\
         #endif\n\n\
         {types}\n\
         #ifndef BPF_NO_PRESERVE_ACCESS_INDEX\n\
         #pragma clang attribute pop\n\
         #endif\n\n\
         #endif /* __VMLINUX_H__ */\n"
    )
}

/// The identifiers that stand in what a preprocessor wrote, but for those of [`HELPERS`].
///
/// Source: "Preprocessor Output" of the manual of the C preprocessor, for the lines `# LINE "FILE"`.
fn words(preprocessed: &[u8]) -> HashSet<&[u8]> {
    let mut words = HashSet::new();
    let mut is_skipped = false;
    for line in preprocessed.split(|&it| it == b'\n') {
        if line.starts_with(b"# ") {
            is_skipped = line.windows(HELPERS.len()).any(|it| it == HELPERS);
        } else if !is_skipped {
            let runs = line.split(|it| !it.is_ascii_alphanumeric() && *it != b'_');
            words.extend(runs.filter(|it| it.first().is_some_and(|it| !it.is_ascii_digit())));
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &[u8] = b"# 1 \"a.bpf.c\"\n# 1 \"/t/vmlinux.h\" 1\n# 2 \"a.bpf.c\" 2\n\
        # 1 \"/t/bpf/bpf_helper_defs.h\" 1\nstruct sock;\n# 3 \"a.bpf.c\" 2\n\
        int on(struct task_struct *t) { return t->mm1 + 0x10u; }\n";

    #[test]
    fn words_are_those_of_the_source_and_not_of_the_helpers() {
        let mut found: Vec<_> =
            words(TEXT).into_iter().map(|it| std::str::from_utf8(it).unwrap()).collect();
        found.sort_unstable();
        assert_eq!(found, ["int", "mm1", "on", "return", "struct", "t", "task_struct"]);
    }

    #[test]
    fn a_header_is_included_if_a_line_says_so() {
        assert!(is_included(TEXT, Path::new("/t/vmlinux.h")));
        assert!(!is_included(TEXT, Path::new("/u/vmlinux.h")));
        assert!(!is_included(b"char *it = \"/t/vmlinux.h\";\n", Path::new("/t/vmlinux.h")));
    }
}
