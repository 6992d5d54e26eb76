//! Addresses to names.
//!
//! *In*: the bytes of an ELF file, of `/proc/kallsyms`, of a `perf-PID.map`. *Out*: immutable tables
//! that answer "which symbol covers this address" by one binary search, and can be shared between
//! threads. Names come out as they stand in the file; [`demangle`] is asked once for each distinct
//! name that is shown.
//!
//! This stage opens no file: whoever has files implements [`Files`]. Which symbol wins where several
//! share an address, and how far a symbol without a size reaches, follows `choose_best_symbol()` and
//! `symbols__fixup_end()` in `tools/perf/util/symbol.c`, so that both tools print the same name.

mod bpf_lines;
mod build_id;
mod code;
mod debug_files;
mod demangle;
mod dwarf;
mod elf;
mod files;
mod find;
mod functions;
mod go;
mod instructions;
mod interrupts;
mod itanium;
mod jit_elf;
mod jitdump;
mod kallsyms;
mod known_lines;
mod module_file;
mod perf_map;
mod places;
mod plt;
mod skeleton;
mod source_lines;
mod table;

use std::path::PathBuf;

pub use bpf_lines::BpfLines;
pub use bpf_lines::SourceLine;
pub use build_id::build_id_from_notes;
pub use code::Code;
pub use code::CodeLine;
pub use code::CodeLines;
pub use code::LineTable;
pub use debug_files::DebugFile;
pub use debug_files::debug_files;
pub use demangle::MAX_DEMANGLED_BYTES;
pub use demangle::demangle;
pub use dwarf::DwarfLines;
pub use elf::DebugLink;
pub use elf::ElfCode;
pub use elf::ElfFile;
pub use elf::ElfModule;
pub use elf::FrameTable;
pub use elf::Identity;
pub use elf::OwnedBytes;
pub use elf::Part;
pub use elf::Section;
pub use elf::Symbols;
pub use files::Artifact;
pub use files::FileBytes;
pub use files::FileStatus;
pub use files::Files;
pub use files::Glance;
pub use files::Opened;
pub use find::build_id_at_hand;
pub use find::is_at_its_path;
pub use find::undeleted;
pub use functions::Functions;
pub use go::GoLines;
pub use instructions::Flow;
pub use instructions::Instruction;
pub use instructions::Instructions;
pub use instructions::Machine;
pub use instructions::Step;
pub use instructions::Syntax;
pub use instructions::far_targets;
pub use interrupts::is_interrupt_entry;
pub use jit_elf::JitElf;
pub use jitdump::JitCode;
pub use jitdump::JitDump;
pub use jitdump::NoJitDump;
pub use jitdump::is_dump;
pub use jitdump::is_injected;
pub use kallsyms::Kallsyms;
pub use kallsyms::KallsymsLine;
pub use kallsyms::kallsyms_lines;
pub use known_lines::KnownLines;
pub use module_file::Inode;
pub use module_file::Mapper;
pub use module_file::ModuleFile;
pub use perf_map::PerfMap;
pub use places::Layout;
pub use places::Places;
pub use places::Symfs;
pub use skeleton::NoSkeleton;
pub use skeleton::Tables;
pub use skeleton::skeleton;
pub use source_lines::NativeLine;
pub use source_lines::SourceFrame;
pub use source_lines::SourceLines;
pub use table::Binding;
pub use table::Symbol;
pub use table::SymbolIdx;
pub use table::SymbolTable;

use crate::units::BuildId;

/// Why bytes gave no symbol table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are no ELF file, or its header or segments lie outside of it.
    #[error("not a readable ELF file: {reason}")]
    Elf {
        /// What the ELF reader said.
        reason: String,
    },
    /// A file could not be opened.
    #[error("cannot open `{}`: {reason}", path.display())]
    Open {
        /// The file.
        path: PathBuf,
        /// What the store said.
        reason: String,
    },
    /// The file is there, but it is not the one that was recorded.
    #[error(
        "`{}` has build id {}, not the recorded {wanted}",
        path.display(),
        found.map_or_else(|| "none".to_owned(), |it| it.to_string())
    )]
    OtherBuild {
        /// The file.
        path: PathBuf,
        /// The build id that the recording noted.
        wanted: BuildId,
        /// The one that it has.
        found: Option<BuildId>,
    },
    /// The file is there, and by its place on the disk or by its age it is not the one that was recorded.
    #[error("`{}` is not the file that was recorded", path.display())]
    OtherFile {
        /// The file.
        path: PathBuf,
    },
    /// Every address of a kallsyms text is zero: the kernel hid them from whoever read it
    /// (`kptr_restrict`, `kallsyms_show_value()` in `kernel/ksyms_common.c`).
    #[error("all {n_symbols} addresses in kallsyms are zero")]
    HiddenAddresses {
        /// How many lines it had.
        n_symbols: u64,
    },
    /// A `vmlinux` without symbols.
    #[error("it has no symbols of a kernel")]
    NoSymbols,
    /// A kallsyms text without a single symbol.
    #[error("kallsyms holds no symbol")]
    EmptyKallsyms,
}
