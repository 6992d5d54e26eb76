//! The kernel's PMUs for the event parser.

use std::io;

use crate::events;
use crate::host::pmus::Pmus;
use crate::units::Cpu;

impl events::Pmus for Pmus {
    fn names(&self) -> io::Result<Vec<String>> {
        Self::names(self)
    }

    fn kind(&self, pmu: &str) -> io::Result<Option<u32>> {
        Self::kind(self, pmu)
    }

    fn formats(&self, pmu: &str) -> io::Result<Vec<(String, String)>> {
        Self::formats(self, pmu)
    }

    fn events(&self, pmu: &str) -> io::Result<Vec<(String, String)>> {
        Self::events(self, pmu)
    }

    fn cpus(&self, pmu: &str) -> io::Result<Option<Vec<Cpu>>> {
        Self::cpus(self, pmu)
    }
}
