//! A workload of BPF programs that come and go: loads them one after the other, each for a moment.
//!
//! ```text
//! churn run COUNT KIND LIFE PAUSE   load COUNT programs, each alive for LIFE, with PAUSE between
//! churn hold COUNT KIND             load COUNT programs and keep them until stdin ends
//! ```
//!
//! LIFE and PAUSE are in microseconds. A life is waited for by sleeping or, with `-` before the
//! number, without letting go of the CPU. KIND is one of
//!
//! ```text
//! bare    two instructions, no types
//! typed   types of its own
//! used    types, and metadata in a map that the instructions speak of
//! bound   types, and metadata in a map that is bound to the program after its load, as libbpf does
//! ```
//!
//! When the last program is loaded, or gone, it prints their ids in one line. Each is called
//! `churned_N` and has the metadata `owner = "churn-N"`.

#![expect(clippy::print_stdout, reason = "its caller reads the ids from stdout")]
#![expect(unsafe_code, reason = "libbpf-rs loads no bare instructions")]

use std::env;
use std::error::Error;
use std::ffi::CString;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::fd::FromRawFd;
use std::os::fd::OwnedFd;
use std::ptr;
use std::thread;
use std::time::Duration;
use std::time::Instant;

use libbpf_rs::libbpf_sys as raw;

const USAGE: &str =
    "usage: churn run COUNT bare|typed|used|bound LIFE PAUSE | churn hold COUNT KIND";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bare,
    Typed,
    Used,
    Bound,
}

/// How long to wait, and how.
#[derive(Clone, Copy, Debug)]
struct Wait {
    time: Duration,
    is_busy: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let mut ids = Vec::new();
    let mut kept = Vec::new();
    match args.as_slice() {
        ["run", count, kind, life, pause] => {
            let (kind, life, pause) = (Kind::parse(kind)?, Wait::parse(life)?, Wait::parse(pause)?);
            for n in 0..count.parse()? {
                let loaded = load(n, kind)?;
                life.pass();
                // The id of a program that is gone can no longer be asked for: it was told before.
                ids.push(loaded.id);
                drop(loaded);
                pause.pass();
            }
        }
        ["hold", count, kind] => {
            for n in 0..count.parse()? {
                let loaded = load(n, Kind::parse(kind)?)?;
                ids.push(loaded.id);
                kept.push(loaded);
            }
        }
        _ => return Err(USAGE.into()),
    }
    let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
    println!("{}", ids.join(" "));
    if !kept.is_empty() {
        std::io::stdin().read_to_end(&mut Vec::new())?;
    }
    Ok(())
}

impl Kind {
    fn parse(text: &str) -> Result<Self, Box<dyn Error>> {
        match text {
            "bare" => Ok(Self::Bare),
            "typed" => Ok(Self::Typed),
            "used" => Ok(Self::Used),
            "bound" => Ok(Self::Bound),
            _ => Err(USAGE.into()),
        }
    }
}

impl Wait {
    fn parse(text: &str) -> Result<Self, Box<dyn Error>> {
        let (is_busy, text) = text.strip_prefix('-').map_or((false, text), |it| (true, it));
        Ok(Self { time: Duration::from_micros(text.parse()?), is_busy })
    }

    fn pass(self) {
        let start = Instant::now();
        if self.is_busy {
            while start.elapsed() < self.time {
                std::hint::spin_loop();
            }
        } else if !self.time.is_zero() {
            thread::sleep(self.time);
        }
    }
}

/// A program with what belongs to it; unloaded when dropped.
struct Loaded {
    _program: OwnedFd,
    _types: Option<OwnedFd>,
    _map: Option<OwnedFd>,
    id: u32,
}

/// Loads `r0 = n; exit` as a socket filter.
fn load(n: u64, kind: Kind) -> Result<Loaded, Box<dyn Error>> {
    let name = CString::new(format!("churned_{n}"))?;
    let value = format!("churn-{n}\0").into_bytes();
    let types = if kind == Kind::Bare { None } else { Some(load_types(&name, value.len())?) };
    let map = match &types {
        Some(types) if matches!(kind, Kind::Used | Kind::Bound) => Some(map(types, &value)?),
        _ => None,
    };
    // struct bpf_insn: BPF_LD | BPF_IMM | BPF_DW of a map's descriptor in two instructions,
    // BPF_ALU64 | BPF_MOV | BPF_K, and BPF_JMP | BPF_EXIT.
    let mut insns: Vec<u64> = Vec::new();
    if let (Kind::Used, Some(map)) = (kind, &map) {
        insns.extend([0x1118 | immediate(u64::try_from(map.as_raw_fd())?), 0]);
    }
    insns.extend([0xb7 | immediate(n), 0x95]);
    // struct bpf_func_info: the first instruction is of the function that has type 3.
    let functions = [0_u32, 3];
    let mut options = raw::bpf_prog_load_opts {
        sz: size_of::<raw::bpf_prog_load_opts>() as raw::size_t,
        ..Default::default()
    };
    if let Some(types) = &types {
        options.prog_btf_fd = u32::try_from(types.as_raw_fd())?;
        options.func_info = functions.as_ptr().cast();
        options.func_info_cnt = 1;
        options.func_info_rec_size = 8;
    }
    // SAFETY: the instructions, the function and the strings outlive the call, and are as long as
    // their counts say.
    let program = owned(unsafe {
        raw::bpf_prog_load(
            raw::BPF_PROG_TYPE_SOCKET_FILTER,
            name.as_ptr(),
            c"GPL".as_ptr(),
            insns.as_ptr().cast(),
            insns.len() as raw::size_t,
            &raw mut options,
        )
    })?;
    if let (Kind::Bound, Some(map)) = (kind, &map) {
        // SAFETY: takes two descriptors, and options that may be null.
        let ret =
            unsafe { raw::bpf_prog_bind_map(program.as_raw_fd(), map.as_raw_fd(), ptr::null()) };
        check(ret)?;
    }
    let id = id(&program)?;
    Ok(Loaded { _program: program, _types: types, _map: map, id })
}

/// The immediate operand of an instruction.
fn immediate(value: u64) -> u64 {
    value << 32
}

/// Loads the types of a function `name` and of a section `.rodata` with one string.
fn load_types(name: &CString, value_len: usize) -> Result<OwnedFd, Box<dyn Error>> {
    let mut strings = vec![0];
    let mut string = |text: &[u8]| {
        let at = u32::try_from(strings.len());
        strings.extend_from_slice(text);
        strings.push(0);
        at
    };
    let len = u32::try_from(value_len)?;
    let (int, char) = (string(b"int")?, string(b"char")?);
    let (function, owner) = (string(name.as_bytes())?, string(b"bpf_metadata_owner")?);
    let section = string(b".rodata")?;
    // struct btf_type, by kind (INT 1, ARRAY 3, FUNC 12, FUNC_PROTO 13, VAR 14, DATASEC 15).
    let kind = |kind: u32, n: u32| kind << 24 | n;
    let types = [
        [int, kind(1, 0), 4, 1 << 24 | 32].as_slice(),
        &[0, kind(13, 0), 1],
        &[function, kind(12, 0), 2],
        &[char, kind(1, 0), 1, 8],
        &[0, kind(3, 0), 0, 4, 1, len],
        &[owner, kind(14, 0), 5, 1],
        &[section, kind(15, 1), len, 6, 0, len],
    ]
    .concat();
    let types: Vec<u8> = types.iter().flat_map(|it| it.to_ne_bytes()).collect();
    let (types_len, strings_len) = (u32::try_from(types.len())?, u32::try_from(strings.len())?);
    // struct btf_header: magic, version 1, flags, and where types and strings are.
    let mut data = 0xeb9f_u16.to_ne_bytes().to_vec();
    data.extend([1, 0]);
    let header = [24, 0, types_len, types_len, strings_len];
    data.extend(header.iter().flat_map(|it| it.to_ne_bytes()));
    data.extend([types, strings].concat());
    // SAFETY: the bytes outlive the call and are as long as it is told.
    let ret = unsafe {
        raw::bpf_btf_load(data.as_ptr().cast(), data.len() as raw::size_t, ptr::null_mut())
    };
    owned(ret)
}

/// A read-only map of one value, as libbpf makes it of `.rodata`.
fn map(types: &OwnedFd, value: &[u8]) -> Result<OwnedFd, Box<dyn Error>> {
    let options = raw::bpf_map_create_opts {
        sz: size_of::<raw::bpf_map_create_opts>() as raw::size_t,
        btf_fd: u32::try_from(types.as_raw_fd())?,
        btf_value_type_id: 7,
        map_flags: raw::BPF_F_RDONLY_PROG,
        ..Default::default()
    };
    let (kind, len) = (raw::BPF_MAP_TYPE_ARRAY, u32::try_from(value.len())?);
    // SAFETY: the name and the options outlive the call.
    let map = owned(unsafe {
        raw::bpf_map_create(kind, c"churn.rodata".as_ptr(), 4, len, 1, &raw const options)
    })?;
    let key = 0_u32;
    // SAFETY: the key is of 4 bytes and the value as long as the map was made for.
    let ret = unsafe {
        raw::bpf_map_update_elem(map.as_raw_fd(), (&raw const key).cast(), value.as_ptr().cast(), 0)
    };
    check(ret)?;
    // SAFETY: takes a descriptor only.
    check(unsafe { raw::bpf_map_freeze(map.as_raw_fd()) })?;
    Ok(map)
}

/// The kernel's id of a program.
fn id(program: &OwnedFd) -> Result<u32, Box<dyn Error>> {
    let mut info = raw::bpf_prog_info::default();
    let mut len = u32::try_from(size_of_val(&info))?;
    // SAFETY: `info` is `len` bytes whose pointers are null, and both outlive the call.
    check(unsafe {
        raw::bpf_prog_get_info_by_fd(program.as_raw_fd(), &raw mut info, &raw mut len)
    })?;
    Ok(info.id)
}

/// libbpf's calls return a negative errno.
fn check(ret: i32) -> Result<i32, Box<dyn Error>> {
    if ret < 0 { Err(std::io::Error::from_raw_os_error(-ret).into()) } else { Ok(ret) }
}

fn owned(ret: i32) -> Result<OwnedFd, Box<dyn Error>> {
    let fd = check(ret)?;
    // SAFETY: the call succeeded, and nothing else has seen the descriptor.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}
