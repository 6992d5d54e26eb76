//! What a machine has of events, for whoever can look.

use std::error::Error;
use std::fmt;
use std::io;

use super::object::Contents;
use crate::units::Cpu;
use crate::units::FileOffset;

/// Everyone who is asked while a list is parsed.
#[derive(Clone, Copy)]
pub struct Machine<'a> {
    /// The kernel's tracepoints.
    pub tracepoints: &'a dyn Tracepoints,
    /// The kernel's PMUs.
    pub pmus: &'a dyn Pmus,
    /// The functions of files.
    pub functions: &'a dyn Functions,
    /// The programs of BPF object files.
    pub objects: &'a dyn Objects,
}

impl fmt::Debug for Machine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Machine").finish_non_exhaustive()
    }
}

/// Who knows the tracepoints of a kernel.
pub trait Tracepoints {
    /// The id of one tracepoint, or `None` if there is none of that name.
    ///
    /// # Errors
    ///
    /// Whatever keeps the answer from being known.
    fn id(&self, system: &str, name: &str) -> io::Result<Option<u64>>;

    /// Every tracepoint, as system and name, in the order in which they are to be recorded.
    ///
    /// # Errors
    ///
    /// Whatever keeps the answer from being known.
    fn all(&self) -> io::Result<Vec<(String, String)>>;
}

/// Who knows the PMUs of a kernel: the folders of `/sys/bus/event_source/devices`.
///
/// Source: `Documentation/ABI/testing/sysfs-bus-event_source-devices*` in the kernel.
pub trait Pmus {
    /// The names of all PMUs, ascending.
    ///
    /// # Errors
    ///
    /// Whatever keeps the answer from being known, as in all of these.
    fn names(&self) -> io::Result<Vec<String>>;

    /// The number to put into `type`, or `None` if there is no such PMU.
    ///
    /// # Errors
    ///
    /// Whatever keeps the answer from being known.
    fn kind(&self, pmu: &str) -> io::Result<Option<u32>>;

    /// Its fields, each as name and place: `event` and `config:0-7,32-35`.
    ///
    /// # Errors
    ///
    /// Whatever keeps the answer from being known.
    fn formats(&self, pmu: &str) -> io::Result<Vec<(String, String)>>;

    /// Its events, each as name and terms: `cpu-cycles` and `event=0x3c`.
    ///
    /// # Errors
    ///
    /// Whatever keeps the answer from being known.
    fn events(&self, pmu: &str) -> io::Result<Vec<(String, String)>>;

    /// The CPUs on which its events can be opened, if not on all.
    ///
    /// # Errors
    ///
    /// Whatever keeps the answer from being known.
    fn cpus(&self, pmu: &str) -> io::Result<Option<Vec<Cpu>>>;
}

/// Who knows the functions of a file.
pub trait Functions {
    /// Where the code of a function begins in the file, or `None` if the file has no function of
    /// that name.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is no ELF file.
    fn offset(&self, path: &str, name: &str) -> io::Result<Option<FileOffset>>;

    /// The names of all functions.
    ///
    /// # Errors
    ///
    /// As [`Functions::offset`].
    fn names(&self, path: &str) -> io::Result<Vec<String>>;
}

/// Who knows what BPF object files have.
pub trait Objects {
    /// The programs of a file, and the maps that they write samples into.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or is no BPF object of this machine's byte order.
    fn contents(&self, path: &str) -> Result<Contents, Box<dyn Error + Send + Sync>>;

    /// Where the program or library `name` is, of which a section may give the bare name.
    fn find(&self, name: &str) -> String;
}
