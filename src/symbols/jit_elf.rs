//! A function that a JIT compiler made as an ELF file, for readers that know no jitdump.

use object::Endianness;
use object::elf;
use object::write::elf::FileHeader;
use object::write::elf::ProgramHeader;
use object::write::elf::SectionHeader;
use object::write::elf::Sym;
use object::write::elf::Writer;
use ring::digest::SHA256;
use ring::digest::digest;

use crate::units::BuildId;
use crate::units::FileOffset;

use super::JitCode;

/// A library with one function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JitElf {
    /// All its bytes.
    pub bytes: Vec<u8>,
    /// By what it is known: the start of a digest of the function.
    pub build_id: BuildId,
    /// Where the code of the function begins, as an offset in the file and as an address.
    pub text: FileOffset,
}

/// How the code of a function is aligned in the file.
const TEXT_ALIGN: usize = 64;

impl JitElf {
    /// The library of `code`; `None` where its code is not known.
    pub fn new(code: &JitCode) -> Option<Self> {
        let text = &*code.code;
        if text.is_empty() {
            return None;
        }
        let what = [code.name.as_bytes(), &[0], &code.machine.to_le_bytes(), text].concat();
        let digest = digest(&SHA256, &what);
        let build_id = BuildId::new(digest.as_ref().get(..BuildId::MAX)?)?;
        let (bytes, text) = written(code, build_id)?;
        Some(Self { bytes, build_id, text: FileOffset(text) })
    }
}

/// The bytes of the file, and where its code begins.
fn written(code: &JitCode, build_id: BuildId) -> Option<(Vec<u8>, u64)> {
    let text = &*code.code;
    let endian = if code.is_little_endian { Endianness::Little } else { Endianness::Big };
    let note = note(endian, build_id);
    let mut bytes = Vec::new();
    let mut writer = Writer::new(endian, true, &mut bytes);
    writer.reserve_file_header();
    writer.reserve_program_headers(2);
    let note_at = writer.reserve(note.len(), 4) as u64;
    let text_at = writer.reserve(text.len(), TEXT_ALIGN) as u64;
    writer.reserve_null_section_index();
    let text_name = writer.add_section_name(b".text");
    let text_section = writer.reserve_section_index();
    let note_name = writer.add_section_name(b".note.gnu.build-id");
    writer.reserve_section_index();
    writer.reserve_null_symbol_index();
    writer.reserve_symbol_index(Some(text_section));
    let name = writer.add_string(code.name.as_bytes());
    writer.reserve_symtab_section_index();
    writer.reserve_strtab_section_index();
    writer.reserve_shstrtab_section_index();
    writer.reserve_symtab();
    writer.reserve_strtab();
    writer.reserve_shstrtab();
    writer.reserve_section_headers();

    let header = FileHeader {
        os_abi: elf::ELFOSABI_NONE,
        abi_version: 0,
        e_type: elf::ET_DYN,
        e_machine: code.machine,
        e_entry: 0,
        e_flags: 0,
    };
    writer.write_file_header(&header).ok()?;
    writer.write_align_program_headers();
    let text_len = text.len() as u64;
    let segment = |p_type, p_flags, at, len, p_align| ProgramHeader {
        p_type,
        p_flags,
        p_offset: at,
        p_vaddr: at,
        p_paddr: at,
        p_filesz: len,
        p_memsz: len,
        p_align,
    };
    let end = text_at.checked_add(text_len)?;
    writer.write_program_header(&segment(elf::PT_LOAD, elf::PF_R | elf::PF_X, 0, end, 0x1000));
    writer.write_program_header(&segment(elf::PT_NOTE, elf::PF_R, note_at, note.len() as u64, 4));
    writer.write_align(4);
    writer.write(&note);
    writer.write_align(TEXT_ALIGN);
    writer.write(text);
    writer.write_null_symbol();
    writer.write_symbol(&Sym {
        name: Some(name),
        section: Some(text_section),
        st_info: (elf::STB_GLOBAL << 4) | elf::STT_FUNC,
        st_other: elf::STV_DEFAULT,
        st_shndx: 0,
        st_value: text_at,
        st_size: text_len,
    });
    writer.write_strtab();
    writer.write_shstrtab();
    writer.write_null_section_header();
    let section = |name, sh_type, sh_flags: u32, at, len, sh_addralign| SectionHeader {
        name: Some(name),
        sh_type,
        sh_flags: sh_flags.into(),
        sh_addr: at,
        sh_offset: at,
        sh_size: len,
        sh_link: 0,
        sh_info: 0,
        sh_addralign,
        sh_entsize: 0,
    };
    let flags = elf::SHF_ALLOC | elf::SHF_EXECINSTR;
    let align = TEXT_ALIGN as u64;
    writer.write_section_header(&section(
        text_name,
        elf::SHT_PROGBITS,
        flags,
        text_at,
        text_len,
        align,
    ));
    let note_len = note.len() as u64;
    writer.write_section_header(&section(
        note_name,
        elf::SHT_NOTE,
        elf::SHF_ALLOC,
        note_at,
        note_len,
        4,
    ));
    writer.write_symtab_section_header(1);
    writer.write_strtab_section_header();
    writer.write_shstrtab_section_header();
    Some((bytes, text_at))
}

/// A note with `build_id`.
fn note(endian: Endianness, build_id: BuildId) -> Vec<u8> {
    let id = build_id.as_bytes();
    let owner = b"GNU\0";
    let lens = [owner.len(), id.len()].map(|it| u32::try_from(it).unwrap_or_default());
    let words = [lens[0], lens[1], elf::NT_GNU_BUILD_ID].map(|it| match endian {
        Endianness::Little => it.to_le_bytes(),
        Endianness::Big => it.to_be_bytes(),
    });
    let mut note = words.concat();
    note.extend_from_slice(owner);
    note.extend_from_slice(id);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::process::Command;

    use super::*;
    use crate::symbols::ElfModule;
    use crate::units::Addr;
    use crate::units::Nanos;

    fn code(is_little_endian: bool) -> JitCode {
        let [start, end] = [0x7f00_1234_5010, 0x7f00_1234_5013].map(Addr);
        let (name, machine) = ("made(int)".to_owned(), elf::EM_X86_64);
        let code = [0x31, 0xc0, 0xc3].into();
        JitCode { time: Nanos(7), start, end, name, code, machine, is_little_endian }
    }

    #[test]
    fn the_library_has_the_function_where_it_says() {
        for is_little_endian in [true, false] {
            let code = code(is_little_endian);
            let JitElf { bytes, build_id, text } = JitElf::new(&code).unwrap();
            let at = usize::try_from(text.0).unwrap();
            assert_eq!(&bytes[at..at + 3], &*code.code);
            let module = ElfModule::parse(&bytes, None).unwrap();
            assert_eq!(module.identity().build_id, Some(build_id));
            let found = |at| {
                let symbol = module.find(module.vaddr(FileOffset(at))?)?;
                Some(module.symbol(symbol)?.name.to_owned())
            };
            assert_eq!(found(text.0).as_deref(), Some("made(int)"));
            assert_eq!(found(text.0 + 2).as_deref(), Some("made(int)"));
            assert_eq!(found(text.0 + 3), None);
        }
    }

    #[test]
    fn other_readers_take_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("made.so");
        fs::write(&path, JitElf::new(&code(true)).unwrap().bytes).unwrap();
        let read = Command::new("readelf").args(["-a", "-W"]).arg(&path).output().unwrap();
        let (text, odd) =
            [read.stdout, read.stderr].map(|it| String::from_utf8(it).unwrap()).into();
        assert_eq!(odd, "", "{text}");
        assert!(text.contains("FUNC    GLOBAL DEFAULT    1 made(int)"), "{text}");
    }

    #[test]
    fn two_functions_have_two_ids() {
        let first = code(true);
        let renamed = JitCode { name: "made(long)".to_owned(), ..first.clone() };
        let moved = JitCode { start: Addr(0x5000), end: Addr(0x5003), ..first.clone() };
        let id = |it: &JitCode| JitElf::new(it).unwrap().build_id;
        assert_ne!(id(&first), id(&renamed));
        assert_eq!(id(&first), id(&moved));
        assert_eq!(JitElf::new(&JitCode { code: [].into(), ..first }), None);
    }
}
