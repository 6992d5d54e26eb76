//! The twins of the structures of `bpf/off_cpu.bpf.c`.

use crate::units::Pid;
use crate::units::Tid;

/// What is alike in the sleeps that are summed: `struct off_cpu_key`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Key {
    /// The process.
    pub pid: Pid,
    /// The thread.
    pub tid: Tid,
    /// The number of its stack in the kernel, negative if there is none.
    pub kernel_stack: i32,
    /// Of its stack in user space, likewise.
    pub user_stack: i32,
    /// The state in which it left.
    pub state: u32,
    /// What woke it.
    pub woken_by: u32,
    /// The process and thread that woke it, 0 if none did.
    pub waker: (Pid, Tid),
    /// Its cgroup, 0 if nobody asked.
    pub cgroup: u64,
}

/// What they come to: `struct off_cpu_sum`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// How long it was off the CPU, in nanoseconds.
    pub off_ns: u64,
    /// Of that, how long it could have run, in nanoseconds.
    pub runnable_ns: u64,
    /// How often.
    pub n: u64,
    /// On which CPU it came back last.
    pub cpu: u32,
    /// What the waker was called, with zeros behind.
    pub waker_comm: [u8; 16],
}

/// A sleep that is worth a sample of its own: `struct off_cpu_message`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffCpuMessage {
    /// Of what.
    pub key: Key,
    /// How long.
    pub sum: Sum,
}

fn word(bytes: &mut &[u8]) -> Option<u64> {
    let (word, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_ne_bytes(*word))
}

fn half(bytes: &mut &[u8]) -> Option<u32> {
    let (half, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u32::from_ne_bytes(*half))
}

impl Key {
    /// How long it is, in bytes.
    pub const LEN: usize = 40;

    /// Decodes it; `None` for fewer bytes than it has.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let mut id = || Some(half(bytes)?.cast_signed());
        let (pid, tid) = (Pid(id()?), Tid(id()?));
        let (kernel_stack, user_stack) = (id()?, id()?);
        let (state, woken_by) = (id()?.cast_unsigned(), id()?.cast_unsigned());
        let waker = (Pid(id()?), Tid(id()?));
        let cgroup = word(bytes)?;
        Some(Self { pid, tid, kernel_stack, user_stack, state, woken_by, waker, cgroup })
    }
}

impl Sum {
    /// How long it is, in bytes.
    pub const LEN: usize = 48;

    /// Decodes it; `None` for fewer bytes than it has.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        let (off_ns, runnable_ns, n) = (word(bytes)?, word(bytes)?, word(bytes)?);
        let (cpu, _zero) = (half(bytes)?, half(bytes)?);
        Some(Self { off_ns, runnable_ns, n, cpu, waker_comm: *bytes.first_chunk()? })
    }
}

impl OffCpuMessage {
    /// How long it is, in bytes.
    pub const LEN: usize = Key::LEN + Sum::LEN;

    /// Whether it is of no task, and there to say what time it is.
    pub fn is_mark(&self) -> bool {
        self.key.tid == Tid(0)
    }

    /// Decodes it; `None` for fewer bytes than it has.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (key, sum) = bytes.split_at_checked(Key::LEN)?;
        Some(Self { key: Key::decode(key)?, sum: Sum::decode(sum)? })
    }
}

#[cfg(test)]
mod tests {
    use super::super::skel::types;
    use super::*;

    #[test]
    fn the_twins_are_as_long_as_the_structures() {
        assert_eq!(size_of::<types::off_cpu_key>(), Key::LEN);
        assert_eq!(size_of::<types::off_cpu_sum>(), Sum::LEN);
    }

    #[test]
    fn each_field_is_where_the_program_puts_it() {
        let halves: [i32; 8] = [11, 12, 13, -14, 2, 1, 21, 22];
        let mut bytes: Vec<u8> = halves.iter().flat_map(|it| it.to_ne_bytes()).collect();
        bytes.extend([31_u64, 41, 42, 43].iter().flat_map(|it| it.to_ne_bytes()));
        bytes.extend([3_u32, 0].iter().flat_map(|it| it.to_ne_bytes()));
        bytes.extend(*b"writer\0\0\0\0\0\0\0\0\0\0");
        let key = Key {
            pid: Pid(11),
            tid: Tid(12),
            kernel_stack: 13,
            user_stack: -14,
            state: 2,
            woken_by: 1,
            waker: (Pid(21), Tid(22)),
            cgroup: 31,
        };
        let waker_comm = *b"writer\0\0\0\0\0\0\0\0\0\0";
        let sum = Sum { off_ns: 41, runnable_ns: 42, n: 43, cpu: 3, waker_comm };
        assert_eq!(bytes.len(), OffCpuMessage::LEN);
        assert_eq!(OffCpuMessage::decode(&bytes), Some(OffCpuMessage { key, sum }));
        assert_eq!(OffCpuMessage::decode(&bytes[..87]), None);
    }
}
