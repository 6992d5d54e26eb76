//! The BTF objects of programs and maps, each fetched once.

use std::collections::HashMap;
use std::os::fd::AsFd;

use crate::btf::Btf;
use crate::sys::bpf;

/// BTF objects by id; `None` for what was asked for and could not be had.
#[derive(Debug, Default)]
pub(super) struct Btfs(HashMap<u32, Option<Btf>>);

impl Btfs {
    /// The object `id`, from the kernel where it is not known yet.
    pub(super) fn fetch(&mut self, id: u32) -> Option<&Btf> {
        self.0.entry(id).or_insert_with(|| fetch(id)).as_ref()
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

fn fetch(id: u32) -> Option<Btf> {
    let data = bpf::btf_fd(id).and_then(|it| bpf::btf_data(it.as_fd()));
    let data = data.inspect_err(|errno| tracing::debug!(id, %errno, "BTF")).ok()?;
    Btf::parse(data).inspect_err(|error| tracing::debug!(id, %error, "BTF")).ok()
}
