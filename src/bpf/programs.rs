//! The programs that are loaded, and what the kernel knows of each.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::os::fd::OwnedFd;

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

    /// The ids of the maps that it uses.
    pub fn map_ids(&self) -> impl ExactSizeIterator<Item = u32> {
        let ids = self.info.array(ProgArray::MAP_IDS).unwrap_or_default().as_chunks::<4>().0;
        ids.iter().copied().map(u32::from_ne_bytes)
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
    /// Known, but without their types, which the kernel did not hand out.
    pub n_untyped: u64,
}

impl Skipped {
    /// The larger of each number: much of what both count is the same.
    #[must_use]
    pub fn worst(self, other: Self) -> Self {
        let Self { n_vanished, n_refused, n_failed, n_hidden, n_untyped } = other;
        Self {
            n_vanished: self.n_vanished.max(n_vanished),
            n_refused: self.n_refused.max(n_refused),
            n_failed: self.n_failed.max(n_failed),
            n_hidden: self.n_hidden.max(n_hidden),
            n_untyped: self.n_untyped.max(n_untyped),
        }
    }
}

/// Programs by id, with the BTF objects that describe them, each fetched once.
#[derive(Debug, Default)]
pub struct Programs {
    by_id: BTreeMap<ProgId, Program>,
    /// Why those are not there that were asked for in vain.
    missed: BTreeMap<ProgId, Errno>,
    /// The newest program of those that are none of its business; 0 if all are.
    newest_old: u32,
    btfs: Btfs,
    maps: MetadataMaps,
}

/// A program that cannot go away while it is looked at.
#[derive(Debug)]
pub struct Held {
    id: ProgId,
    fd: OwnedFd,
}

impl Held {
    /// Takes hold of the program `id`.
    ///
    /// This is quick, and all that has to be: a program that is held can be looked at later.
    ///
    /// # Errors
    ///
    /// `ENOENT` if it is gone, `EPERM` without the privilege.
    pub fn take(id: ProgId) -> Result<Self, Errno> {
        Ok(Self { id, fd: bpf::prog_fd(id.0)? })
    }

    /// The kernel's id of it.
    pub fn id(&self) -> ProgId {
        self.id
    }
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

    /// None yet, to be told of those that come from now on.
    pub fn to_come() -> Self {
        let mut programs = Self::default();
        programs.skip_old();
        programs.maps.skip_old();
        programs
    }

    /// Passes over the programs that are loaded already.
    fn skip_old(&mut self) {
        while let Ok(Some(id)) = bpf::next_prog_id(self.newest_old)
            && self.newest_old < id
        {
            self.newest_old = id;
        }
    }

    /// Adds the loaded programs that are not known yet; of [`Programs::to_come`], those that came
    /// since.
    ///
    /// # Errors
    ///
    /// As [`Programs::walk`]; what was known and found stays.
    pub fn update(&mut self) -> Result<(), Error> {
        let mut last = self.newest_old;
        while let Some(id) = bpf::next_prog_id(last).map_err(Error::from_listing)? {
            // The ids of the list only rise.
            if id <= last {
                break;
            }
            last = id;
            let id = ProgId(id);
            if self.get(id).is_some() {
                continue;
            }
            match Held::take(id) {
                Ok(held) => self.look(&held),
                Err(errno) => self.miss(id, errno),
            }
        }
        Ok(())
    }

    /// Asks for all there is to know of a program, and keeps it.
    ///
    /// What cannot be had is counted in [`Programs::skipped`].
    pub fn look(&mut self, held: &Held) {
        match self.ask(held) {
            Ok(program) => {
                self.missed.remove(&held.id);
                self.by_id.insert(held.id, program);
            }
            Err(errno) => self.miss(held.id, errno),
        }
    }

    /// Whether metadata of a known program is there, but not bound to it yet, so that it is worth
    /// holding the program a little longer.
    ///
    /// A loader binds the map of a program that does not itself read its metadata only after the
    /// load (`BPF_PROG_BIND_MAP`).
    pub fn awaits_metadata(&mut self, id: ProgId) -> bool {
        let Some(program) = self.by_id.get(&id) else { return false };
        let Some(btf_id) = program.info.btf_id() else { return false };
        let mut new = self.maps.new_of(btf_id, &mut self.btfs);
        new.any(|id| program.map_ids().all(|it| it != id))
    }

    /// Looks again at a known program if it has got more maps by now.
    pub fn look_again(&mut self, held: &Held) {
        let Some(known) = self.by_id.get(&held.id) else { return };
        let n_known = known.map_ids().len();
        let n_now = bpf::n_maps(held.fd.as_fd()).ok().and_then(|it| usize::try_from(it).ok());
        if n_now.is_some_and(|it| it != n_known) {
            self.look(held);
        }
    }

    /// As [`Programs::look_again`], if it still lives and can have metadata.
    pub fn refresh(&mut self, id: ProgId) {
        if self.by_id.get(&id).is_none_or(|it| it.info.btf_id().is_none()) {
            return;
        }
        match Held::take(id) {
            Ok(held) => self.look_again(&held),
            Err(errno) => tracing::trace!(%id, %errno, "second look"),
        }
    }

    /// Takes over what `other` knows and this does not.
    pub fn merge(&mut self, other: Self) {
        let Self { by_id, missed, newest_old: _, btfs, maps: _ } = other;
        for (id, program) in by_id {
            if !self.knows(&program) {
                self.by_id.insert(id, program);
            }
        }
        self.missed.extend(missed);
        let by_id = &self.by_id;
        self.missed.retain(|id, _| !by_id.contains_key(id));
        self.btfs.merge(btfs);
    }

    /// Whether `program` is known with all of its metadata.
    pub fn knows(&self, program: &Program) -> bool {
        self.get(program.id()).is_some_and(|it| it.metadata.len() >= program.metadata.len())
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
        let mut skipped = Skipped::default();
        for errno in self.missed.values() {
            match errno {
                Errno::ENOENT => skipped.n_vanished += 1,
                Errno::EPERM | Errno::EACCES => skipped.n_refused += 1,
                _ => skipped.n_failed += 1,
            }
        }
        for Program { info, functions, .. } in self.by_id.values() {
            // A program that the kernel interprets has an address, but no code there.
            let is_interpreted = info.array(ProgArray::JITED_KSYMS).is_some_and(|it| it != [0; 8]);
            let is_hidden = functions.is_empty() && info.n_functions() > 0 && !is_interpreted;
            skipped.n_hidden += u64::from(is_hidden);
            let is_untyped = info.btf_id().is_some_and(|id| self.btfs.get(id).is_none());
            skipped.n_untyped += u64::from(is_untyped);
        }
        skipped
    }

    /// Notes why a program could not be held.
    pub fn miss(&mut self, id: ProgId, errno: Errno) {
        tracing::trace!(%id, %errno, "program");
        self.missed.insert(id, errno);
    }

    fn ask(&mut self, held: &Held) -> Result<Program, Errno> {
        let answer = bpf::prog_info(held.fd.as_fd(), &WANTED)?;
        let arrays = ProgArray::ALL.into_iter().zip(&answer.arrays);
        let arrays = arrays.filter_map(|(array, bytes)| Some((array, bytes.as_deref()?)));
        let info = ProgInfo::new(&answer.info, arrays);
        let btf = info.btf_id().and_then(|id| self.btfs.fetch(id));
        let functions = functions(&info, btf);
        let mut program = Program { info, functions, metadata: Vec::new() };
        let said = program.map_ids().map(|id| self.maps.entries(id, &mut self.btfs).to_vec());
        program.metadata = said.flatten().collect();
        Ok(program)
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
        let with = |ids: &[u32], missed: &[(u32, Errno)]| Programs {
            by_id: ids.iter().map(|&id| (ProgId(id), program(b"a"))).collect(),
            missed: missed.iter().map(|&(id, errno)| (ProgId(id), errno)).collect(),
            ..Programs::default()
        };
        let mut programs = with(&[1, 2], &[(3, Errno::ENOENT), (4, Errno::ENOENT)]);
        let other = [(2, Errno::ENOENT), (4, Errno::ENOENT), (5, Errno::EPERM), (6, Errno::EIO)];
        programs.merge(with(&[2, 3], &other));
        assert_eq!(programs.iter().len(), 3);
        let want = Skipped { n_vanished: 1, n_refused: 1, n_failed: 1, ..Skipped::default() };
        assert_eq!(programs.skipped(), want);
    }
}
