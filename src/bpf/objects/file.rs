//! What an object file has.

use libbpf_rs::MapType;
use libbpf_rs::ObjectBuilder;
use libbpf_rs::OpenObject;
use object::read::elf::ElfFile32;
use object::read::elf::ElfFile64;

use super::Error;
use super::messages::heard;
use crate::btf::Btf;
use crate::sys::bpf;

/// What can be chosen from an object file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The name and the section of each program.
    pub programs: Vec<(String, String)>,
    /// The names of the maps through which programs write samples.
    pub outputs: Vec<String>,
}

/// What an object file of these bytes has.
///
/// # Errors
///
/// [`Error`] if it is no BPF object of this machine's byte order.
pub fn contents(bytes: &[u8]) -> Result<Contents, Error> {
    let (object, _) = open("object", bytes)?;
    let text = |it: &std::ffi::OsStr| it.to_string_lossy().into_owned();
    let programs = object.progs().map(|it| (text(it.name()), text(it.section()))).collect();
    let outputs = object.maps().filter(|it| is_output(it.map_type()));
    let outputs = outputs.map(|it| text(it.name())).collect();
    Ok(Contents { programs, outputs })
}

/// Whether programs write samples into maps of this type.
pub(super) fn is_output(kind: MapType) -> bool {
    matches!(kind, MapType::PerfEventArray | MapType::RingBuf)
}

/// The object, opened, and the types that it brings; the maps of its variables begin with `name`.
pub(super) fn open(name: &str, bytes: &[u8]) -> Result<(OpenObject, Option<Btf>), Error> {
    check(bytes)?;
    // libbpf says a lot of old objects; the whole of it comes with a failure.
    let (opened, log) = heard(|| {
        let mut builder = ObjectBuilder::default();
        builder.name(name)?.relaxed_maps(true).open_memory(bytes)
    });
    log.lines.iter().for_each(|line| tracing::debug!("{line}"));
    let object = opened.map_err(|_| Error::Malformed(log))?;
    let btf = bpf::types_of(&object).and_then(|it| Btf::parse(it).ok());
    Ok((object, btf))
}

/// `EM_BPF` of `elf.h`.
const MACHINE_BPF: u16 = 247;

/// Checks what kind of file it is.
fn check(bytes: &[u8]) -> Result<(), Error> {
    if !bytes.starts_with(b"\x7fELF") {
        return Err(Error::NotElf);
    }
    let machine = match ElfFile64::<object::Endianness>::parse(bytes) {
        Ok(file) => {
            let machine = file.elf_header().e_machine.get(file.endian());
            if machine == MACHINE_BPF {
                let wants = object::Endianness::default();
                if file.endian() != wants {
                    let name = |it| if it == object::Endianness::Big { "big" } else { "little" };
                    return Err(Error::ByteOrder { has: name(file.endian()), wants: name(wants) });
                }
                return Ok(());
            }
            machine
        }
        Err(_) => match ElfFile32::<object::Endianness>::parse(bytes) {
            Ok(file) => file.elf_header().e_machine.get(file.endian()),
            Err(_) => return Err(Error::NotElf),
        },
    };
    Err(Error::Machine { machine })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header of an ELF file with 64 bits.
    fn elf(order: u8, machine: u16) -> Vec<u8> {
        let mut bytes = vec![0; 64];
        bytes[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, order, 1]);
        let put = |bytes: &mut Vec<u8>, at: usize, value: u16| {
            let value = if order == 2 { value.to_be_bytes() } else { value.to_le_bytes() };
            bytes[at..at + 2].copy_from_slice(&value);
        };
        put(&mut bytes, 16, 1);
        put(&mut bytes, 18, machine);
        put(&mut bytes, 52, 64);
        bytes
    }

    #[track_caller]
    fn refused(bytes: &[u8], want: &str) {
        assert_eq!(check(bytes).unwrap_err().to_string(), want);
    }

    #[test]
    fn what_is_no_bpf_of_this_machine_is_refused() {
        refused(b"int main;", "it is no ELF file");
        refused(b"\x7fELF", "it is no ELF file");
        refused(&elf(1, 62), "it holds no BPF, but code of machine 62");
        let other = if cfg!(target_endian = "big") { 1 } else { 2 };
        let names = if other == 2 { ("big", "little") } else { ("little", "big") };
        let want = format!("it is {}-endian, and this machine is {}-endian", names.0, names.1);
        refused(&elf(other, 247), &want);
        check(&elf(3 - other, 247)).unwrap();
    }
}
