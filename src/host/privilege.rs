//! What this process may do: user, capabilities, and what confines it.

use std::fs;
use std::path::Path;

/// A capability, by its number in `include/uapi/linux/capability.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capability(u32);

impl Capability {
    /// Raw I/O on network interfaces: XDP and the like.
    pub const NET_ADMIN: Self = Self(12);
    /// Everything that has no capability of its own.
    pub const SYS_ADMIN: Self = Self(21);
    /// Kernel addresses.
    pub const SYSLOG: Self = Self(34);
    /// Performance events, since Linux 5.8; before that `SYS_ADMIN`.
    pub const PERFMON: Self = Self(38);
    /// BPF, since Linux 5.8; before that `SYS_ADMIN`.
    pub const BPF: Self = Self(39);
}

/// What a process may do and what confines it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Privilege {
    /// The effective capabilities, a bit each.
    pub capabilities: u64,
    /// Whether a filter looks at each of its system calls.
    pub is_filtered: bool,
}

impl Privilege {
    /// That of this process.
    pub fn own() -> Self {
        fs::read_to_string("/proc/self/status").map(|it| Self::parse(&it)).unwrap_or_default()
    }

    /// Of the text of `/proc/PID/status`.
    fn parse(status: &str) -> Self {
        let value = |name: &str| {
            let line = status.lines().find_map(|it| it.strip_prefix(name))?;
            Some(line.strip_prefix(':')?.trim())
        };
        Self {
            capabilities: value("CapEff")
                .and_then(|it| u64::from_str_radix(it, 16).ok())
                .unwrap_or_default(),
            // 0 none, 1 strict, 2 a filter.
            is_filtered: value("Seccomp").is_some_and(|it| it != "0"),
        }
    }

    /// Whether it has `capability`, or the one that stood for it before.
    pub fn has(self, capability: Capability) -> bool {
        let bit = |it: Capability| self.capabilities >> it.0 & 1 == 1;
        bit(capability) || bit(Capability::SYS_ADMIN)
    }
}

/// The kind of container that this process is in, as far as that shows.
pub fn container() -> Option<&'static str> {
    let marks = [("/.dockerenv", "docker"), ("/run/.containerenv", "podman")];
    marks.into_iter().find(|(path, _)| Path::new(path).exists()).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn capabilities_and_filters_are_read_off_the_status() {
        let text = "Name:\tx\nCapPrm:\t0\nCapEff:\t000000c000000000\nSeccomp:\t2\n";
        let privilege = Privilege::parse(text);
        assert!(privilege.has(Capability::PERFMON) && privilege.has(Capability::BPF));
        assert!(!privilege.has(Capability::SYSLOG));
        assert!(privilege.is_filtered);
        assert_eq!(Privilege::parse("Name:\tx\n"), Privilege::default());
    }

    #[test]
    fn the_administrator_may_do_what_newer_capabilities_allow() {
        let privilege = Privilege { capabilities: 1 << 21, is_filtered: false };
        assert!(privilege.has(Capability::PERFMON) && privilege.has(Capability::SYSLOG));
    }
}
