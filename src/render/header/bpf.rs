//! The BPF programs of a recording.

use std::collections::BTreeMap;
use std::collections::BTreeSet;
use std::io;
use std::io::Write;

use crate::btf::Btf;
use crate::perfdata::Cursor;
use crate::perfdata::Endian;
use crate::perfdata::Error;
use crate::perfdata::bpf_info::ProgInfo;
use crate::perfdata::bpf_info::ProgSymbol;
use crate::perfdata::bpf_info::decode_btfs;
use crate::perfdata::bpf_info::decode_prog_infos;
use crate::perfdata::feature::Feature;
use crate::perfdata::feature::FeatureId;
use crate::perfdata::feature::Text;
use crate::units::FileOffset;
use crate::units::ProgId;

/// The types that name the functions of programs.
pub(super) struct Btfs {
    endian: Endian,
    by_id: BTreeMap<u32, Btf>,
    /// The programs and types that have been listed: a pipe may tell of one twice.
    programs_listed: BTreeSet<ProgId>,
    types_listed: BTreeSet<u32>,
}

impl Btfs {
    pub(super) fn new<'a>(features: impl Iterator<Item = &'a Feature>, endian: Endian) -> Self {
        let mut by_id = BTreeMap::new();
        for feature in features {
            let Feature::BpfBtf(bytes) = feature else { continue };
            // Damage is told where the section is printed.
            let btfs = decode_btfs(Cursor::new(bytes, FileOffset(0), endian)).unwrap_or_default();
            let btfs =
                btfs.into_iter().filter_map(|(id, it)| Some((id, Btf::parse(it.to_vec()).ok()?)));
            by_id.extend(btfs);
        }
        let (programs_listed, types_listed) = (BTreeSet::new(), BTreeSet::new());
        Self { endian, by_id, programs_listed, types_listed }
    }

    /// Writes a line a program, or more where it has several functions.
    pub(super) fn write_programs(
        &mut self,
        bytes: &[u8],
        at: FileOffset,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match decode_prog_infos(Cursor::new(bytes, at, self.endian)) {
            Ok(infos) if infos.is_empty() => writeln!(out, "# bpf_prog_info empty"),
            Ok(mut infos) => {
                infos.retain(|it| self.programs_listed.insert(it.id()));
                infos.iter().try_for_each(|it| self.write_program(it, out))
            }
            Err(error) => damaged(FeatureId::BPF_PROG_INFO, &error, out),
        }
    }

    fn write_program(&self, info: &ProgInfo<'_>, out: &mut dyn Write) -> io::Result<()> {
        let id = info.id();
        let btf = info.btf_id().and_then(|it| self.by_id.get(&it));
        let line = |ProgSymbol { addr, len, name, .. }: &ProgSymbol| {
            format!("{} addr 0x{addr} size {len}", Text::from(&**name))
        };
        match &*info.symbols(|type_id| btf?.function_name(type_id)) {
            [] => writeln!(out, "# bpf_prog_info {id}: bpf_prog_{} without addresses", info.tag()),
            [symbol] if info.n_functions() == 1 => {
                writeln!(out, "# bpf_prog_info {id}: {}", line(symbol))
            }
            symbols => {
                writeln!(out, "# bpf_prog_info {id}:")?;
                let mut symbols = symbols.iter();
                symbols.try_for_each(|it| writeln!(out, "# \tsub_prog {}: {}", it.idx, line(it)))
            }
        }
    }

    /// Writes a line a BTF.
    pub(super) fn write_btfs(
        &mut self,
        bytes: &[u8],
        at: FileOffset,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        match decode_btfs(Cursor::new(bytes, at, self.endian)) {
            Ok(btfs) if btfs.is_empty() => writeln!(out, "# btf info empty"),
            Ok(mut btfs) => {
                btfs.retain(|(id, _)| self.types_listed.insert(*id));
                btfs.iter().try_for_each(|(id, _)| writeln!(out, "# btf info of id {id}"))
            }
            Err(error) => damaged(FeatureId::BPF_BTF, &error, out),
        }
    }
}

fn damaged(id: FeatureId, error: &Error, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "# {id} damaged: {error}")
}
