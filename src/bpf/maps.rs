//! The maps that programs use: names and kinds.

use std::collections::HashMap;
use std::os::fd::AsFd;

use crate::perfdata::private::MapState;
use crate::sys::bpf;
use crate::sys::bpf_names;

/// Maps by id, each asked for once; `None` for what could not be had.
#[derive(Debug, Default)]
pub(super) struct Maps(HashMap<u32, Option<MapState>>);

impl Maps {
    /// The map `id`, if it lives or lived when it was first asked for.
    pub(super) fn get(&mut self, id: u32) -> Option<&MapState> {
        self.0.entry(id).or_insert_with(|| fetch(id)).as_ref()
    }
}

fn fetch(id: u32) -> Option<MapState> {
    let map = bpf::map_fd(id).ok()?;
    let info = bpf::map_info(map.as_fd()).ok()?;
    let name = info.name.split(|&it| it == 0).next().unwrap_or_default();
    let kind = bpf_names::map_kind(info.map_type);
    Some(MapState {
        id,
        name: String::from_utf8_lossy(name).into_owned(),
        kind: kind.map_or_else(|| format!("kind {}", info.map_type), str::to_owned),
    })
}
