//! Values that are set before the programs run: variables in the open object, maps in the loaded one.

use std::ops::RangeInclusive;

use libbpf_rs::MapCore as _;
use libbpf_rs::MapFlags;
use libbpf_rs::MapMut;
use libbpf_rs::MapType;
use libbpf_rs::OpenObject;

use super::Error;
use crate::btf::Btf;
use crate::events::object::Assign;
use crate::events::object::Setting;

/// Sets the variables in `object`, whose types are `btf`.
pub(super) fn set_variables(
    object: &mut OpenObject,
    btf: Option<&Btf>,
    settings: &[Setting],
) -> Result<(), Error> {
    for setting in settings {
        let Assign::Variable(name) = &setting.to else { continue };
        let btf = btf.ok_or_else(|| Error::Untyped { name: name.clone() })?;
        let mut known = Vec::new();
        let mut is_set = false;
        for mut map in object.maps_mut() {
            let map_name = map.name().to_string_lossy().into_owned();
            let Some(section) = section_of(&map_name, btf) else { continue };
            let Some(data) = map.initial_value_mut() else { continue };
            known.extend(
                btf.variables(section).map(|it| String::from_utf8_lossy(it.name).into_owned()),
            );
            let Some((type_id, offset)) = btf.place(section, name) else { continue };
            let value = btf.encode(type_id, &setting.value);
            let value = value.ok_or_else(|| bad_value(btf, type_id, name, &setting.value))?;
            let room = data.get_mut(offset..).and_then(|it| it.get_mut(..value.len()));
            if let Some(room) = room {
                room.copy_from_slice(&value);
                is_set = true;
            }
        }
        if !is_set {
            // What the headers at hand bring is not for the user to set.
            known.retain(|it| {
                !it.starts_with("bpf_metadata_") && it != "LICENSE" && it != "_license"
            });
            return Err(Error::UnknownVariable { name: name.clone(), known });
        }
    }
    Ok(())
}

fn bad_value(btf: &Btf, type_id: u32, name: &str, value: &str) -> Error {
    let wanted = btf.describe(type_id);
    Error::Value { name: name.to_owned(), value: value.to_owned(), wanted }
}

/// The data section that a map of libbpf's own making holds: its name ends in it.
pub(super) fn section_of(map: &str, btf: &Btf) -> Option<u32> {
    let dot = map.find('.')?;
    btf.section(map.get(dot..)?.as_bytes())
}

/// Sets one value of a loaded map for each of the keys, whose values are of the type `value_type`.
pub(super) fn set_map(
    map: &MapMut<'_>,
    btf: Option<&Btf>,
    value_type: Option<u32>,
    keys: Option<&[RangeInclusive<u64>]>,
    text: &str,
) -> Result<(), Error> {
    let name = map.name().to_string_lossy().into_owned();
    let bad = |wanted: String| Error::Value { name: name.clone(), value: text.to_owned(), wanted };
    let value_len = usize::try_from(map.value_size()).unwrap_or(usize::MAX);
    let typed = btf.zip(value_type);
    let value = match typed {
        Some((btf, type_id)) => {
            btf.encode(type_id, text).ok_or_else(|| bad(btf.describe(type_id)))?
        }
        // Without a type it is a number of that size.
        None => crate::btf::integer(text, value_len)
            .ok_or_else(|| bad(format!("a number of {value_len} bytes")))?,
    };
    if value.len() != value_len {
        return Err(bad(format!("{value_len} bytes long")));
    }
    let is_array = matches!(map.map_type(), MapType::Array | MapType::PercpuArray);
    let all = 0..=u64::from(map.max_entries()).saturating_sub(1);
    let keys = match keys {
        Some(keys) => keys,
        None if is_array => std::slice::from_ref(&all),
        None => {
            return Err(bad("set by key, as `map:NAME.value[0]`, since it is no array".to_owned()));
        }
    };
    // Some maps make room for a new key for ever.
    if !is_array && u64::from(map.max_entries()) < n_keys(keys) {
        return Err(bad(format!("a map of {} keys at the most", map.max_entries())));
    }
    let key_len = usize::try_from(map.key_size()).unwrap_or(usize::MAX);
    for key in keys.iter().cloned().flatten() {
        if is_array && !all.contains(&key) {
            let wanted = format!("of keys {} to {}", all.start(), all.end());
            return Err(Error::Value {
                name: format!("{name}[{key}]"),
                value: text.to_owned(),
                wanted,
            });
        }
        let bytes = crate::btf::integer(&key.to_string(), key_len)
            .ok_or_else(|| bad(format!("a map with keys of {key_len} bytes")))?;
        let done = if map.map_type().is_percpu() {
            let n_cpus = libbpf_rs::num_possible_cpus().unwrap_or(1);
            map.update_percpu(&bytes, &vec![value.clone(); n_cpus], MapFlags::ANY)
        } else {
            map.update(&bytes, &value, MapFlags::ANY)
        };
        done.map_err(|source| Error::Update { map: name.clone(), key, source })?;
    }
    Ok(())
}

/// How many keys these are.
fn n_keys(keys: &[RangeInclusive<u64>]) -> u64 {
    let len = |it: &RangeInclusive<u64>| (it.end() - it.start()).saturating_add(1);
    keys.iter().map(len).fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_however_many() {
        assert_eq!(n_keys(&[3..=3, 4..=7]), 5);
        assert_eq!(n_keys(&[0..=u64::MAX, 1..=1]), u64::MAX);
    }
}
