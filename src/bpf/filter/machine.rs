//! A machine that runs the instructions of filters, for tests: it knows the instructions that the
//! assembler writes, the helpers that filters call, and memory in pieces.

use super::assembler::Insn;
use super::kernel::Task;
use super::kernel::VIEW;

/// Where things are in the machine.
const STACK: u64 = 0x1000_0000;
pub(super) const VIEW_AT: u64 = 0x2000_0000;
const KERNEL_VIEW_AT: u64 = 0x3000_0000;
pub(super) const SAMPLE_AT: u64 = 0x4000_0000;
pub(super) const CHAIN_AT: u64 = 0x5000_0000;
const TASK_AT: u64 = 0x5800_0000;
const MAP: u64 = 0x6000_0000;

/// Where things are in a task; whom it runs for is described behind it.
pub(super) const TASK: Task = Task { comm: 2000, cred: 1000, uid: 8, gid: 12 };
const CRED_AT: u64 = TASK_AT + 3000;

/// The numbers of maps in a machine.
pub(super) const DROPPED: i32 = 1;
pub(super) const HEAD: i32 = 2;
pub(super) const TABLES: i32 = 3;

/// What a program of an event sees.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    /// Pieces of memory, each with the address of its first byte.
    memory: Vec<(u64, Vec<u8>)>,
    /// The length of a value of each map.
    value_lens: Vec<(i32, u64)>,
    pub(super) comm: [u8; 16],
    pub(super) cpu: u32,
    pub(super) pid_tgid: u64,
    pub(super) uid_gid: u64,
    pub(super) cgroup: u64,
    /// The type of the function that gives the kernel's own view, and where the sample is there.
    pub(super) cast: (i32, i16),
}

impl Machine {
    pub(super) fn new() -> Self {
        let mut it = Self {
            memory: vec![(STACK, vec![0xee; 512])],
            value_lens: Vec::new(),
            comm: [0; 16],
            cpu: 0,
            pid_tgid: 0,
            uid_gid: 0,
            cgroup: 0,
            cast: (1234, 8),
        };
        it.memory.push((VIEW_AT, vec![0; 512]));
        it.memory.push((KERNEL_VIEW_AT, vec![0; 24]));
        it.memory.push((SAMPLE_AT, vec![0; 256]));
        it.memory.push((CHAIN_AT, vec![0; 4096]));
        it.memory.push((TASK_AT, vec![0; 4096]));
        it.map(DROPPED, 8, 8);
        it.write(KERNEL_VIEW_AT + 8, &SAMPLE_AT.to_ne_bytes());
        it
    }

    /// Makes a map whose values are `len` bytes in all.
    pub(super) fn map(&mut self, fd: i32, value_len: u64, len: usize) {
        self.memory.push((map_at(fd), vec![0; len]));
        self.value_lens.push((fd, value_len));
    }

    /// Writes to the value of the map `fd`, from the byte `at` on.
    pub(super) fn write_map(&mut self, fd: i32, at: u64, bytes: &[u8]) {
        self.write(map_at(fd) + at, bytes);
    }

    pub(super) fn n_dropped(&self) -> u64 {
        self.read(map_at(DROPPED), 8)
    }

    pub(super) fn write(&mut self, at: u64, bytes: &[u8]) {
        let (base, piece) = self
            .memory
            .iter_mut()
            .find(|(base, piece)| (*base..base + piece.len() as u64).contains(&at))
            .unwrap_or_else(|| panic!("write to {at:#x}"));
        let at = usize::try_from(at - *base).unwrap();
        piece[at..at + bytes.len()].copy_from_slice(bytes);
    }

    fn read(&self, at: u64, len: usize) -> u64 {
        let (base, piece) = self
            .memory
            .iter()
            .find(|(base, piece)| (*base..base + piece.len() as u64).contains(&at))
            .unwrap_or_else(|| panic!("read of {at:#x}"));
        let at = usize::try_from(at - base).unwrap();
        let mut bytes = [0; 8];
        bytes[..len].copy_from_slice(&piece[at..at + len]);
        u64::from_ne_bytes(bytes)
    }

    /// Runs to the end and gives what is returned; each register that a call spoils is spoiled.
    pub(super) fn run(&mut self, insns: &[Insn]) -> u64 {
        assert!(VIEW.is_some());
        let mut regs = [0xdead_0000_u64; 11];
        regs[1] = VIEW_AT;
        regs[10] = STACK + 512;
        let mut at = 0_usize;
        for _ in 0..1_000_000 {
            let Insn { code, dst, src, offset, immediate } = insns[at];
            let (d, s) = (usize::from(dst), usize::from(src));
            at += 1;
            let value = i64::from(immediate).cast_unsigned();
            let operand = if code & 0x08 == 0 { value } else { regs[s] };
            let address = |base: u64| base.wrapping_add_signed(offset.into());
            match code {
                0x61 => regs[d] = self.read(address(regs[s]), 4),
                0x71 => regs[d] = self.read(address(regs[s]), 1),
                0x79 => regs[d] = self.read(address(regs[s]), 8),
                0x63 => self.write(address(regs[d]), &regs[s].to_ne_bytes()[..4]),
                0x7b => self.write(address(regs[d]), &regs[s].to_ne_bytes()),
                0x62 => self.write(address(regs[d]), &immediate.to_ne_bytes()),
                0x18 => {
                    let low = u64::from(immediate.cast_unsigned());
                    let high = u64::from(insns[at].immediate.cast_unsigned()) << 32;
                    at += 1;
                    regs[d] = if src == 0 { low | high } else { map_at(immediate) };
                }
                0xbc => regs[d] = regs[s] & 0xffff_ffff,
                0x85 => {
                    regs[0] = self.call(src, immediate, &regs);
                    regs[1..6].fill(0xbad);
                }
                0x95 => return regs[0],
                _ if code & 7 == 7 => {
                    regs[d] = match code & 0xf0 {
                        0x00 => regs[d].wrapping_add(operand),
                        0x10 => regs[d].wrapping_sub(operand),
                        0x40 => regs[d] | operand,
                        0x50 => regs[d] & operand,
                        0x60 => regs[d] << operand,
                        0x70 => regs[d] >> operand,
                        0xa0 => regs[d] ^ operand,
                        0xb0 => operand,
                        0xc0 => (regs[d].cast_signed() >> operand).cast_unsigned(),
                        _ => panic!("instruction {code:#x}"),
                    };
                }
                _ if code & 7 == 5 => {
                    let is_so = match code & 0xf0 {
                        0x00 => true,
                        0x10 => regs[d] == operand,
                        0x20 => regs[d] > operand,
                        0x30 => regs[d] >= operand,
                        0x40 => regs[d] & operand != 0,
                        0x50 => regs[d] != operand,
                        0x70 => regs[d].cast_signed() >= operand.cast_signed(),
                        0xa0 => regs[d] < operand,
                        0xb0 => regs[d] <= operand,
                        _ => panic!("instruction {code:#x}"),
                    };
                    if is_so {
                        at = at.checked_add_signed(offset.into()).unwrap();
                    }
                }
                _ => panic!("instruction {code:#x}"),
            }
        }
        panic!("it does not end");
    }

    fn call(&mut self, src: u8, function: i32, regs: &[u64; 11]) -> u64 {
        if src == 2 {
            assert_eq!((function, regs[1]), (self.cast.0, VIEW_AT));
            return KERNEL_VIEW_AT;
        }
        match function {
            1 => {
                let map = regs[1];
                let key = self.read(regs[2], 4);
                let len = self.value_lens.iter().find(|it| map_at(it.0) == map).unwrap().1;
                map + key * len
            }
            8 => self.cpu.into(),
            14 => self.pid_tgid,
            15 => self.uid_gid,
            16 => {
                assert_eq!(regs[2], 16);
                let comm = self.comm;
                self.write(regs[1], &comm);
                0
            }
            80 => self.cgroup,
            158 => {
                let comm = self.comm;
                let at = |base: u64, offset: i16| base.checked_add_signed(offset.into()).unwrap();
                self.write(at(TASK_AT, TASK.comm), &comm);
                self.write(at(TASK_AT, TASK.cred), &CRED_AT.to_ne_bytes());
                let [uid, gid] = [self.uid_gid & 0xffff_ffff, self.uid_gid >> 32];
                self.write(at(CRED_AT, TASK.uid), &uid.to_ne_bytes()[..4]);
                self.write(at(CRED_AT, TASK.gid), &gid.to_ne_bytes()[..4]);
                TASK_AT
            }
            113 => {
                assert!(regs[2].is_multiple_of(8) && regs[2] <= 128);
                for at in (0..regs[2]).step_by(8) {
                    let word = self.read(regs[3] + at, 8);
                    self.write(regs[1] + at, &word.to_ne_bytes());
                }
                0
            }
            _ => panic!("helper {function}"),
        }
    }
}

fn map_at(fd: i32) -> u64 {
    MAP + u64::from(fd.cast_unsigned()) * 0x10_0000
}
