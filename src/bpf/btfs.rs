//! The BTF objects of programs and maps, each fetched once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::os::fd::AsFd;

use nix::errno::Errno;

use crate::btf::Btf;
use crate::sys::bpf;

/// BTF objects by id; `None` for what is none that can be read. What the kernel refused is not
/// here, as the next answer may be another.
#[derive(Debug, Default)]
pub(super) struct Btfs(HashMap<u32, Option<Btf>>);

impl Btfs {
    /// The object `id`, from the kernel where it is not known yet.
    pub(super) fn fetch(&mut self, id: u32) -> Option<&Btf> {
        let known = match self.0.entry(id) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(fetch(id).ok()?),
        };
        known.as_ref()
    }

    /// The object `id` if it is known.
    pub(super) fn get(&self, id: u32) -> Option<&Btf> {
        self.0.get(&id)?.as_ref()
    }

    /// Takes over what `other` knows and this does not.
    pub(super) fn merge(&mut self, other: Self) {
        for (id, btf) in other.0 {
            let known = self.0.entry(id).or_default();
            if known.is_none() {
                *known = btf;
            }
        }
    }
}

/// The object `id`; `None` for one that cannot be read.
fn fetch(id: u32) -> Result<Option<Btf>, Errno> {
    let data = bpf::btf_fd(id).and_then(|it| bpf::btf_data(it.as_fd()));
    let data = data.inspect_err(|errno| tracing::debug!(id, %errno, "BTF"))?;
    Ok(Btf::parse(data).inspect_err(|error| tracing::debug!(id, %error, "BTF")).ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_not_be_had_is_asked_for_again() {
        let mut btfs = Btfs::default();
        // The kernel gives positive ids only.
        assert!(btfs.fetch(u32::MAX).is_none());
        assert!(btfs.0.is_empty());
    }
}
