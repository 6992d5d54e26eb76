//! What perf 7.3 wrote of a program with two functions and a line of metadata, loaded before.

use bpfperf::btf::Btf;
use bpfperf::perfdata::Cursor;
use bpfperf::perfdata::Endian;
use bpfperf::perfdata::bpf_info::ProgArray;
use bpfperf::perfdata::bpf_info::decode_btfs;
use bpfperf::perfdata::bpf_info::decode_prog_infos;
use bpfperf::perfdata::bpf_info::encode_btfs;
use bpfperf::perfdata::bpf_info::encode_prog_infos;
use bpfperf::symbols::BpfLines;
use bpfperf::units::FileOffset;

const PROG_INFO: &[u8] = include_bytes!("../fixtures/bpf/prog_info.perf-7.3.bin");
const BTF: &[u8] = include_bytes!("../fixtures/bpf/btf.perf-7.3.bin");

fn cursor(bytes: &[u8]) -> Cursor<'_> {
    Cursor::new(bytes, FileOffset(0), Endian::Little)
}

#[test]
fn perfs_program_info_says_what_perf_prints_of_it() {
    let infos = decode_prog_infos(cursor(PROG_INFO)).unwrap();
    let [info] = infos.as_slice() else { panic!("{} programs", infos.len()) };
    assert_eq!(info.id().0, 176);
    assert_eq!(info.name(), b"a_name_of_more_");
    assert_eq!(info.tag().to_string(), "d660839495721fc0");
    assert_eq!(info.btf_id(), Some(123));
    assert_eq!(info.array(ProgArray::JITED_INSNS).map(<[u8]>::len), Some(76));
    assert_eq!(info.array(ProgArray::XLATED_INSNS), None);

    let btfs = decode_btfs(cursor(BTF)).unwrap();
    let [(123, raw)] = btfs.as_slice() else { panic!("{} objects", btfs.len()) };
    let btf = Btf::parse(raw.to_vec()).unwrap();
    let functions = info.functions().map(|(_, it)| {
        let name = btf.function_name(it.type_id.unwrap()).unwrap();
        let tag = it.tag.unwrap();
        format!("{} {} {tag} {}", it.addr, it.len, String::from_utf8_lossy(name))
    });
    assert_eq!(
        functions.collect::<Vec<_>>(),
        [
            "ffffffffc0025c7c 49 82833270785068df a_name_of_more_than_fifteen_bytes",
            "ffffffffc0025cd8 27 3ad6c7b75bc9f775 add_three",
        ]
    );
}

#[test]
#[cfg(target_endian = "little")]
fn perfs_features_are_written_again_byte_for_byte() {
    let infos = decode_prog_infos(cursor(PROG_INFO)).unwrap();
    let mut out = Vec::new();
    encode_prog_infos(&infos.iter().collect::<Vec<_>>(), &mut out);
    assert!(out == PROG_INFO);
    out.clear();
    encode_btfs(&decode_btfs(cursor(BTF)).unwrap(), &mut out);
    assert!(out == BTF);
}

#[test]
fn a_feature_cut_or_changed_anywhere_never_panics() {
    let read = |bytes: &[u8]| {
        for info in decode_prog_infos(cursor(bytes)).into_iter().flatten() {
            info.functions().for_each(drop);
            for array in ProgArray::ALL {
                info.array(array);
            }
            info.native_code();
            let lines = BpfLines::new(&info);
            for (idx, function) in info.functions() {
                lines.at(function.addr + 3);
                lines.in_function(idx, 3);
            }
        }
        for (_, raw) in decode_btfs(cursor(bytes)).into_iter().flatten() {
            if let Ok(btf) = Btf::parse(raw.to_vec()) {
                for id in 0..32 {
                    btf.variables(id).for_each(drop);
                    btf.print(id, &[0x41; 64], 255);
                    btf.string(id << 4);
                }
            }
        }
    };
    for fixture in [PROG_INFO, BTF] {
        for len in 0..fixture.len() {
            read(&fixture[..len]);
        }
        for at in 0..fixture.len() {
            for value in [0, 0x7f, 0x80, 0xff] {
                let mut bytes = fixture.to_vec();
                bytes[at] = value;
                read(&bytes);
            }
        }
    }
}
