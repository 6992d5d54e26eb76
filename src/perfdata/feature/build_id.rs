//! `HEADER_BUILD_ID`: the build ids of the files that had samples.

use crate::perfdata::BuildIdEntry;
use crate::perfdata::Cursor;
use crate::perfdata::Error;
use crate::perfdata::Result;
use crate::units::BuildId;
use crate::units::Pid;

use super::Text;

/// One entry of `HEADER_BUILD_ID`.
///
/// Source: `struct perf_record_header_build_id` in `tools/lib/perf/include/perf/event.h`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileBuildId {
    /// Whose file: the CPU mode bits of `misc`, such as `PERF_RECORD_MISC_KERNEL`.
    pub cpu_mode: u16,
    /// The machine: -1 is the host.
    pub pid: Pid,
    /// The id, or `None` if its size was 0 or more than 20 bytes.
    pub build_id: Option<BuildId>,
    /// The file.
    pub name: Text,
}

/// The bytes of an entry's header.
const HEADER_LEN: usize = 8;

/// The bytes of an entry before its name.
const FIXED_LEN: usize = 36;

impl FileBuildId {
    /// `PERF_RECORD_MISC_CPUMODE_MASK`.
    const CPU_MODE_MASK: u16 = 7;

    /// Decodes all entries that follow.
    pub(super) fn decode_all(cursor: &mut Cursor<'_>) -> Result<Vec<Self>> {
        let form = if has_no_pid(*cursor) { Form::WithoutPid } else { Form::WithPid };
        let mut entries = Vec::new();
        while cursor.remaining() >= 4 {
            // Some writers pad with zeros between entries. The first word of an entry is zero as
            // well, so one whose size is zero began a word too early.
            let mut ahead = *cursor;
            ahead.u32("build id record type")?;
            if ahead.remaining() >= 4 && ahead.u32("build id record size")? != 0 {
                entries.push(Self::decode(cursor, form)?);
            } else {
                cursor.u32("build id padding")?;
            }
        }
        Ok(entries)
    }

    fn decode(cursor: &mut Cursor<'_>, form: Form) -> Result<Self> {
        let at = cursor.at();
        cursor.u32("build id record type")?;
        let misc = cursor.u16("build id record misc")?;
        let size = cursor.u16("build id record size")?;
        let Some(body_len) = usize::from(size).checked_sub(HEADER_LEN) else {
            let (field, value) = ("build id record size", u64::from(size));
            return Err(Error::BadField { field, at, value });
        };
        let (at, endian) = (cursor.at(), cursor.endian());
        let body = cursor.bytes(body_len, "build id entry")?;
        let host = match form {
            Form::WithPid => &[][..],
            Form::WithoutPid => &[0xff; 4],
        };
        let body = [host, body].concat();
        let entry = BuildIdEntry::decode(misc, &mut Cursor::new(&body, at, endian))?;
        let BuildIdEntry { pid, build_id, filename } = entry;
        let cpu_mode = misc & Self::CPU_MODE_MASK;
        Ok(Self { cpu_mode, pid, build_id, name: Text::from(filename) })
    }

    /// Appends the entry, its name (not the whole) padded to 8 bytes.
    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        let Self { cpu_mode, pid, build_id, name } = self;
        let name = name.as_bytes();
        let name_len = name.len().saturating_add(1).next_multiple_of(8);
        // No path is longer than PATH_MAX, 4096, so this drops none that exists.
        let Ok(size) = u16::try_from(name_len.saturating_add(FIXED_LEN)) else { return };
        let id = build_id.as_ref().map(BuildId::as_bytes).unwrap_or_default();
        let start = out.len();
        out.extend(0_u32.to_ne_bytes());
        out.extend((cpu_mode | BuildIdEntry::HAS_SIZE).to_ne_bytes());
        out.extend(size.to_ne_bytes());
        out.extend(pid.0.to_ne_bytes());
        out.extend(id);
        out.resize(start.saturating_add(FIXED_LEN - 4), 0);
        out.extend([u8::try_from(id.len()).unwrap_or_default(), 0, 0, 0]);
        out.extend(name);
        out.resize(start.saturating_add(usize::from(size)), 0);
    }
}

/// How an entry is laid out.
#[derive(Clone, Copy)]
enum Form {
    WithPid,
    /// Before Linux 2.6.35 an entry had no pid, and nothing in the file says so.
    WithoutPid,
}

/// Whether the entries are of the old form: the kernel comes first, and the name of its file is
/// known. perf tells them apart in the same way.
fn has_no_pid(mut cursor: Cursor<'_>) -> bool {
    cursor.bytes(FIXED_LEN, "build id").is_ok() && cursor.rest().starts_with(b"nel.kallsyms]")
}

#[cfg(test)]
mod tests {
    use crate::perfdata::Endian;
    use crate::units::FileOffset;

    use super::*;

    /// What perf 7.3 writes for `[vdso]`.
    const VDSO: [u8; 44] =
        *b"\0\0\0\0\x02\x80\x2c\0\xff\xff\xff\xff\xa5\x99\x80\x71\x56\xa2\xa6\x2f\
        \xe9\x56\xa8\x2e\x38\x8a\xee\xab\xc8\x74\x11\x9c\x14\0\0\0[vdso]\0\0";

    fn vdso() -> FileBuildId {
        FileBuildId {
            cpu_mode: 2,
            pid: Pid(-1),
            build_id: BuildId::new(&VDSO[12..32]),
            name: Text::from("[vdso]"),
        }
    }

    fn decode(bytes: &[u8]) -> Result<Vec<FileBuildId>> {
        FileBuildId::decode_all(&mut Cursor::new(bytes, FileOffset(0x100), Endian::Little))
    }

    #[track_caller]
    fn check(bytes: &[u8], want: &[FileBuildId]) {
        assert_eq!(decode(bytes).unwrap(), want);
    }

    #[test]
    fn an_entry_is_laid_out_as_by_perf() {
        check(&VDSO, &[vdso()]);
        let mut out = Vec::new();
        vdso().encode(&mut out);
        assert_eq!(out, VDSO);
    }

    #[test]
    fn zeros_between_entries_are_passed_over() {
        for n in [0, 4, 8, 12] {
            let bytes = [&VDSO[..], &vec![0; n], &VDSO, &vec![0; n]].concat();
            check(&bytes, &[vdso(), vdso()]);
        }
    }

    #[test]
    fn a_short_id_keeps_its_length() {
        let mut bytes = VDSO;
        bytes[32] = 8;
        check(&bytes, &[FileBuildId { build_id: BuildId::new(&VDSO[12..20]), ..vdso() }]);
    }

    #[test]
    fn an_id_of_more_than_twenty_bytes_costs_the_id_alone() {
        let mut bytes = VDSO;
        bytes[32] = 255;
        check(&bytes, &[FileBuildId { build_id: None, ..vdso() }]);
    }

    #[test]
    fn without_the_size_flag_an_id_has_twenty_bytes() {
        let mut bytes = VDSO;
        (bytes[5], bytes[32]) = (0, 0);
        check(&bytes, &[vdso()]);
    }

    #[test]
    fn the_form_without_pid_is_known_by_the_name_of_the_kernel() {
        let mut bytes = [0; 56];
        bytes[4..8].copy_from_slice(&[1, 0, 56, 0]);
        bytes[8..28].copy_from_slice(&[7; 20]);
        bytes[32..49].copy_from_slice(b"[kernel.kallsyms]");
        let want = FileBuildId {
            cpu_mode: 1,
            pid: Pid(-1),
            build_id: BuildId::new(&[7; 20]),
            name: Text::from("[kernel.kallsyms]"),
        };
        check(&bytes, &[want]);
    }

    #[test]
    fn an_entry_shorter_than_its_fixed_part_is_an_error() {
        let mut bytes = VDSO;
        bytes[6] = 7;
        let Err(Error::BadField { at, value, .. }) = decode(&bytes) else {
            panic!("an entry of 7 bytes was read");
        };
        assert_eq!((at, value), (FileOffset(0x100), 7));
        bytes[6] = 35;
        assert!(matches!(decode(&bytes), Err(Error::Truncated { .. })));
    }
}
