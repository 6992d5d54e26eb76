//! The programs that are loaded, and what the kernel knows of each.

use std::collections::BTreeMap;
use std::os::fd::AsFd;

use nix::errno::Errno;

use super::Error;
use super::btfs::Btfs;
use super::metadata::MetadataEntry;
use super::metadata::MetadataMaps;
use crate::btf::Btf;
use crate::perfdata::bpf_info::ProgArray;
use crate::perfdata::bpf_info::ProgInfo;
use crate::perfdata::bpf_info::ProgSymbol;
use crate::sys::bpf;
use crate::units::Addr;
use crate::units::BpfTag;
use crate::units::ProgId;

/// The arrays that go into the file. The translated instructions do not: perf leaves them out,
/// and a kernel that may not show them stops there and leaves out what would follow.
const WANTED: [bpf::ProgArray; 8] = [
    bpf::ProgArray::JitedInsns,
    bpf::ProgArray::MapIds,
    bpf::ProgArray::JitedKsyms,
    bpf::ProgArray::JitedFuncLens,
    bpf::ProgArray::FuncInfo,
    bpf::ProgArray::LineInfo,
    bpf::ProgArray::JitedLineInfo,
    bpf::ProgArray::ProgTags,
];

/// A loaded program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    info: ProgInfo<'static>,
    functions: Vec<Function>,
    metadata: Vec<MetadataEntry>,
}

/// One function of a program in native code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Where it begins.
    pub addr: Addr,
    /// How long it is, in bytes.
    pub len: u32,
    /// Its name as in the kernel's list of symbols, such as `bpf_prog_07df9015606e4140_handle`.
    pub name: String,
}

impl Program {
    /// The kernel's id of it.
    pub fn id(&self) -> ProgId {
        self.info.id()
    }

    /// The hash of its instructions.
    pub fn tag(&self) -> BpfTag {
        self.info.tag()
    }

    /// All that the kernel told, as `perf.data` carries it.
    pub fn info(&self) -> &ProgInfo<'static> {
        &self.info
    }

    /// Its functions in native code, the entry first; none where the kernel hides addresses.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// What its owner says of it by `bpf_metadata_*` variables.
    pub fn metadata(&self) -> &[MetadataEntry] {
        &self.metadata
    }
}

/// How many programs are not, or not fully, known, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Gone before the kernel could be asked.
    pub n_vanished: u64,
    /// The kernel, or a security module, did not allow to ask.
    pub n_refused: u64,
    /// The kernel's answer was an error of another kind.
    pub n_failed: u64,
    /// Known, but without the addresses of their code, which the kernel hides.
    pub n_hidden: u64,
}

/// Programs by id, with the BTF objects that describe them, each fetched once.
#[derive(Debug, Default)]
pub struct Programs {
    by_id: BTreeMap<ProgId, Program>,
    btfs: Btfs,
    maps: MetadataMaps,
    skipped: Skipped,
}

impl Programs {
    /// All programs that are loaded.
    ///
    /// # Errors
    ///
    /// Only if the kernel lists none to this caller; what is wrong with one program is counted in
    /// [`Programs::skipped`].
    pub fn walk() -> Result<Self, Error> {
        let mut programs = Self::default();
        programs.update()?;
        Ok(programs)
    }

    /// Adds the loaded programs that are not known yet.
    ///
    /// # Errors
    ///
    /// As [`Programs::walk`]; what was known and found stays.
    pub fn update(&mut self) -> Result<(), Error> {
        let mut last = 0;
        while let Some(id) = bpf::next_prog_id(last).map_err(Error::from_listing)? {
            // The ids of the list only rise.
            if id <= last {
                break;
            }
            self.fetch(ProgId(id));
            last = id;
        }
        Ok(())
    }

    /// Asks for the program `id`, unless it is known, and keeps what there is.
    pub fn fetch(&mut self, id: ProgId) {
        if self.get(id).is_some() {
            return;
        }
        match self.ask(id) {
            Ok(program) => {
                if program.functions.is_empty() && program.info.n_functions() > 0 {
                    self.skipped.n_hidden += 1;
                }
                self.by_id.insert(id, program);
            }
            Err(Errno::ENOENT) => self.skipped.n_vanished += 1,
            Err(Errno::EPERM | Errno::EACCES) => self.skipped.n_refused += 1,
            Err(errno) => {
                tracing::debug!(%id, %errno, "program info");
                self.skipped.n_failed += 1;
            }
        }
    }

    /// Asks again for a program that has no metadata yet, if it still lives.
    ///
    /// A loader binds the map of a program that does not itself read its metadata only after the
    /// load (`BPF_PROG_BIND_MAP`).
    pub fn refresh(&mut self, id: ProgId) {
        if self.by_id.get(&id).is_none_or(|it| !it.metadata.is_empty()) {
            return;
        }
        match self.ask(id) {
            Ok(program) => {
                self.by_id.insert(id, program);
            }
            Err(errno) => tracing::trace!(%id, %errno, "second look"),
        }
    }

    /// Takes over what `other` knows and this does not.
    pub fn merge(&mut self, other: Self) {
        let Self { by_id, btfs, maps: _, skipped } = other;
        for (id, program) in by_id {
            if self.by_id.get(&id).is_none_or(|known| known.metadata.is_empty()) {
                self.by_id.insert(id, program);
            }
        }
        self.btfs.merge(btfs);
        let Skipped { n_vanished, n_refused, n_failed, n_hidden } = skipped;
        self.skipped.n_vanished += n_vanished;
        self.skipped.n_refused += n_refused;
        self.skipped.n_failed += n_failed;
        self.skipped.n_hidden += n_hidden;
    }

    /// The programs, by rising id.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &Program> {
        self.by_id.values()
    }

    /// The program `id`, if it is known.
    pub fn get(&self, id: ProgId) -> Option<&Program> {
        self.by_id.get(&id)
    }

    /// The raw BTF of the programs, each object once, by rising id.
    pub fn btfs(&self) -> Vec<(u32, &[u8])> {
        let mut ids: Vec<_> = self.iter().filter_map(|it| it.info.btf_id()).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.into_iter().filter_map(|id| Some((id, self.btfs.get(id)?.as_bytes()))).collect()
    }

    /// What could not be had.
    pub fn skipped(&self) -> Skipped {
        self.skipped
    }

    fn ask(&mut self, id: ProgId) -> Result<Program, Errno> {
        let answer = {
            let prog = bpf::prog_fd(id.0)?;
            bpf::prog_info(prog.as_fd(), &WANTED)?
        };
        let arrays = ProgArray::ALL.into_iter().zip(&answer.arrays);
        let arrays = arrays.filter_map(|(array, bytes)| Some((array, bytes.as_deref()?)));
        let info = ProgInfo::new(&answer.info, arrays);
        let btf = info.btf_id().and_then(|id| self.btfs.fetch(id));
        let functions = functions(&info, btf);
        let maps = info.array(ProgArray::MAP_IDS).unwrap_or_default().as_chunks::<4>().0;
        let maps = maps.iter().copied().map(u32::from_ne_bytes);
        let metadata = maps.flat_map(|id| self.maps.entries(id, &mut self.btfs).to_vec()).collect();
        Ok(Program { info, functions, metadata })
    }
}

impl Error {
    /// What it means that the kernel does not even list programs.
    fn from_listing(errno: Errno) -> Self {
        match errno {
            // No bpf(2) at all, or one older than the listing (Linux 4.13).
            Errno::ENOSYS | Errno::EINVAL => Self::Absent,
            errno => Self::Refused { errno },
        }
    }
}

/// The functions of a program with their names in the kernel's spelling.
fn functions(info: &ProgInfo<'_>, btf: Option<&Btf>) -> Vec<Function> {
    let symbols = info.symbols(|id| btf?.function_name(id)).into_iter();
    let function = |ProgSymbol { addr, len, name, .. }| {
        // The kernel lets nothing but ASCII into these names.
        Function { addr, len, name: String::from_utf8_lossy(&name).into_owned() }
    };
    symbols.map(function).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::btf::testing::Builder;

    const TAG: [u8; 8] = [7, 0xdf, 0x90, 0x15, 0x60, 0x6e, 0x41, 0x40];
    const FUNC: u32 = 12 << 24;

    /// A program with functions at `addrs`, whose types are `types` and whose tags count up.
    fn info(name: &[u8], addrs: &[u64], types: &[u32]) -> ProgInfo<'static> {
        let mut info = [0_u8; 232];
        let mut put = |at: usize, value: u32| {
            info[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        };
        let n_addrs = u32::try_from(addrs.len()).unwrap();
        for count_at in [104, 108, 180] {
            put(count_at, n_addrs);
        }
        put(132, 8);
        put(144, u32::try_from(types.len()).unwrap());
        info[8..16].copy_from_slice(&TAG);
        info[64..64 + name.len()].copy_from_slice(name);
        let bytes = |it: &[u32]| it.iter().flat_map(|it| it.to_ne_bytes()).collect::<Vec<_>>();
        let ksyms: Vec<_> = addrs.iter().flat_map(|it| it.to_ne_bytes()).collect();
        let lens = bytes(&vec![16; addrs.len()]);
        let tags: Vec<_> = (1..=n_addrs).flat_map(|it| u64::from(it).to_be_bytes()).collect();
        let func_info = bytes(&types.iter().flat_map(|&it| [0, it]).collect::<Vec<_>>());
        ProgInfo::new(
            &info,
            [
                (ProgArray::JITED_KSYMS, ksyms.as_slice()),
                (ProgArray::JITED_FUNC_LENS, &lens),
                (ProgArray::FUNC_INFO, &func_info),
                (ProgArray::PROG_TAGS, &tags),
            ],
        )
    }

    #[track_caller]
    fn check(info: &ProgInfo<'_>, btf: Option<&Btf>, want: &[(u64, &str)]) {
        let found = functions(info, btf);
        let found: Vec<_> = found.iter().map(|it| (it.addr.0, it.name.as_str())).collect();
        assert_eq!(found, want);
    }

    #[test]
    fn the_entry_bears_the_programs_tag_and_each_other_function_its_own() {
        let mut btf = Builder::little();
        let main = btf.add("a_name_of_more_than_fifteen_bytes", FUNC, 0, &[]);
        let sub = btf.add("sub", FUNC, 0, &[]);
        check(
            &info(b"a_name_of_more_", &[0x1000, 0x2000], &[main, sub]),
            Some(&btf.build()),
            &[
                (0x1000, "bpf_prog_07df9015606e4140_a_name_of_more_than_fifteen_bytes"),
                (0x2000, "bpf_prog_0000000000000002_sub"),
            ],
        );
    }

    #[test]
    fn without_types_the_short_name_stands_and_other_functions_are_called_f() {
        check(
            &info(b"short", &[0x1000, 0x2000], &[]),
            None,
            &[(0x1000, "bpf_prog_07df9015606e4140_short"), (0x2000, "bpf_prog_0000000000000002_F")],
        );
    }

    #[test]
    fn a_program_without_a_name_is_its_tag() {
        check(&info(b"", &[0x1000], &[]), None, &[(0x1000, "bpf_prog_07df9015606e4140")]);
    }

    #[test]
    fn function_info_of_no_function_falls_back() {
        let btf = Builder::little().build();
        let want = [(0x1000, "bpf_prog_07df9015606e4140_short")];
        check(&info(b"short", &[0x1000], &[77]), Some(&btf), &want);
        check(&info(b"short", &[0x1000], &[77]), None, &want);
    }

    #[test]
    fn a_function_whose_address_is_hidden_is_no_symbol() {
        let want = [(0x2000, "bpf_prog_0000000000000002_F")];
        check(&info(b"short", &[0, 0x2000], &[]), None, &want);
    }

    #[test]
    fn a_name_ends_where_the_kernels_does() {
        let mut btf = Builder::little();
        let long = btf.add(&"x".repeat(511), FUNC, 0, &[]);
        let found = functions(&info(b"", &[0x1000], &[long]), Some(&btf.build()));
        assert_eq!(found[0].name.len(), 511);
    }

    #[test]
    fn the_lack_of_a_listing_is_told_from_a_refusal() {
        assert_eq!(Error::from_listing(Errno::ENOSYS), Error::Absent);
        assert_eq!(Error::from_listing(Errno::EINVAL), Error::Absent);
        assert_eq!(Error::from_listing(Errno::EPERM), Error::Refused { errno: Errno::EPERM });
    }

    #[test]
    fn what_two_readers_know_is_joined_once() {
        let program = |name: &[u8]| Program {
            info: info(name, &[], &[]),
            functions: Vec::new(),
            metadata: Vec::new(),
        };
        let skipped = Skipped { n_vanished: 1, n_refused: 2, n_failed: 3, n_hidden: 4 };
        let with = |ids: &[u32]| Programs {
            by_id: ids.iter().map(|&id| (ProgId(id), program(b"a"))).collect(),
            skipped,
            ..Programs::default()
        };
        let mut programs = with(&[1, 2]);
        programs.merge(with(&[2, 3]));
        assert_eq!(programs.iter().len(), 3);
        let twice = Skipped { n_vanished: 2, n_refused: 4, n_failed: 6, n_hidden: 8 };
        assert_eq!(programs.skipped(), twice);
    }
}
