//! What the programs of an object have counted and noted: its variables and small maps, as text.

use libbpf_rs::MapCore as _;
use libbpf_rs::MapFlags;
use libbpf_rs::MapType;

use super::Object;
use super::load::declared;
use super::settings::section_of;
use crate::btf::Btf;
use crate::perfdata::private;
use crate::perfdata::private::ObjectMap;
use crate::perfdata::private::ObjectVariable;
use crate::sys::bpf_names;

/// The most variables, and the most entries of a map, that are told of.
const MOST_VARIABLES: usize = 256;
const MOST_ENTRIES: usize = 64;

/// The most entries of a map that are counted.
const MOST_COUNTED: usize = 1 << 16;

/// The longest text of a value, in bytes.
const TEXT_MAX: usize = 512;

impl Object {
    /// The types that a sample written to `map` may be of, for the event `event`: the one that the map
    /// was declared with, or those whose names say so.
    pub fn types_of(&self, map: &str, event: &str) -> Vec<u32> {
        let Some(btf) = self.btf() else { return Vec::new() };
        // A number there is the descriptor of an event.
        let is_struct = |id: &u32| btf.fields(*id).next().is_some();
        if let Some(id) = declared(btf, map, b"value").filter(is_struct) {
            return vec![id];
        }
        let names = [map, &format!("{map}_event"), event, &format!("{event}_event"), "event"];
        let mut types: Vec<u32> =
            names.iter().filter_map(|it| btf.structure(it.as_bytes())).filter(is_struct).collect();
        types.dedup();
        types
    }

    /// What its global variables hold, constants and pointers left out.
    pub fn variables(&self) -> Vec<ObjectVariable> {
        let Some(btf) = self.btf() else { return Vec::new() };
        let mut told = Vec::new();
        for map in self.maps() {
            let name = map.name().to_string_lossy();
            let is_constant = name.contains(".rodata") || name.contains(".kconfig");
            let Some(section) = section_of(&name, btf).filter(|_| !is_constant) else { continue };
            let Ok(Some(data)) = map.lookup(&[0; 4], MapFlags::ANY) else { continue };
            for variable in btf.variables(section) {
                let Ok(at) = usize::try_from(variable.offset) else { continue };
                let is_pointer = btf.pointee(variable.type_id).is_some();
                let data = data.get(at..).filter(|_| !is_pointer).unwrap_or_default();
                let Some(value) = btf.print(variable.type_id, data, TEXT_MAX) else { continue };
                let name = String::from_utf8_lossy(variable.name).into_owned();
                told.push(ObjectVariable { name, value });
            }
        }
        told.truncate(MOST_VARIABLES);
        told
    }

    /// What its arrays and hashes hold: of each its first entries by key, of arrays those that are
    /// not 0. Numbers of maps per CPU are sums.
    pub fn map_values(&self) -> Vec<ObjectMap> {
        let mut told = Vec::new();
        for map in self.maps() {
            let name = map.name().to_string_lossy().into_owned();
            let is_array = matches!(map.map_type(), MapType::Array | MapType::PercpuArray);
            let is_hash = matches!(
                map.map_type(),
                MapType::Hash | MapType::PercpuHash | MapType::LruHash | MapType::LruPercpuHash
            );
            // Those with a point are sections of variables.
            if name.contains('.') || !is_array && !is_hash {
                continue;
            }
            let types = Types::of(self.btf(), &name);
            let mut keys: Vec<Vec<u8>> = map.keys().take(MOST_COUNTED).collect();
            keys.sort_by_key(|key| order(key));
            let (mut entries, mut n_left_out) = (Vec::new(), 0);
            for key in keys {
                let values = values(&map, &key);
                if is_array && values.iter().flatten().all(|it| *it == 0) {
                    continue;
                }
                if MOST_ENTRIES <= entries.len() {
                    n_left_out += 1;
                } else {
                    types.tell(&key, values, &mut entries);
                }
            }
            let kind = bpf_names::map_kind(map.map_type().into());
            let kind = kind.unwrap_or_default().to_owned();
            told.push(ObjectMap { name, kind, entries, n_left_out });
        }
        told
    }
}

/// What `map` has for `key`: one value, or one a CPU.
fn values(map: &libbpf_rs::Map<'_>, key: &[u8]) -> Vec<Vec<u8>> {
    if map.map_type().is_percpu() {
        map.lookup_percpu(key, MapFlags::ANY).ok().flatten().unwrap_or_default()
    } else {
        map.lookup(key, MapFlags::ANY).ok().flatten().into_iter().collect()
    }
}

/// What puts keys in order: numbers by value, others by their bytes.
fn order(key: &[u8]) -> Vec<u8> {
    let mut order = key.to_vec();
    if cfg!(target_endian = "little") && order.len() <= 8 {
        order.reverse();
    }
    order
}

/// The types of a map's keys and values.
struct Types<'a> {
    btf: Option<&'a Btf>,
    key: Option<u32>,
    value: Option<u32>,
}

impl<'a> Types<'a> {
    fn of(btf: Option<&'a Btf>, map: &str) -> Self {
        let declared = |what| btf.and_then(|btf| declared(btf, map, what));
        Self { btf, key: declared(b"key"), value: declared(b"value") }
    }

    /// Adds an entry with the values of all CPUs; where these have no sum, one for each that is
    /// not 0.
    fn tell(&self, key: &[u8], mut values: Vec<Vec<u8>>, entries: &mut Vec<(String, String)>) {
        let key = self.text(self.key, key);
        if 1 < values.len() {
            let of_type = self.btf.zip(self.value).and_then(|(btf, id)| btf.sum(id, &values));
            let is_number = values.iter().all(|it| it.len() == 8);
            let of_numbers = || {
                let numbers = values.iter().filter_map(|it| it.first_chunk());
                numbers.map(|it| u64::from_ne_bytes(*it)).fold(0, u64::wrapping_add)
            };
            let untyped = || {
                let wanted = self.value.is_none() && is_number;
                wanted.then(|| of_numbers().to_ne_bytes().to_vec())
            };
            if let Some(sum) = of_type.or_else(untyped) {
                values = vec![sum];
            }
        }
        if let [value] = &values[..] {
            entries.push((key, self.text(self.value, value)));
            return;
        }
        for (cpu, value) in values.iter().enumerate().filter(|(_, it)| it.iter().any(|it| *it != 0))
        {
            entries.push((format!("{key} on CPU {cpu}"), self.text(self.value, value)));
        }
    }

    /// A key or a value as text, by its type if it has one.
    fn text(&self, type_id: Option<u32>, bytes: &[u8]) -> String {
        let typed = self.btf.zip(type_id);
        let typed = typed.and_then(|(btf, id)| btf.print(id, bytes, TEXT_MAX));
        let number = || match bytes.len() {
            4 => bytes.first_chunk().map(|it| u64::from(u32::from_ne_bytes(*it))),
            8 => bytes.first_chunk().map(|it| u64::from_ne_bytes(*it)),
            _ => None,
        };
        let text = typed.or_else(|| number().map(|it| it.to_string()));
        text.unwrap_or_else(|| private::digits(bytes.get(..TEXT_MAX / 2).unwrap_or(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_numbers_are_in_the_order_of_numbers() {
        let mut keys: Vec<Vec<u8>> = [256_u32, 1, 2].map(|it| it.to_ne_bytes().to_vec()).into();
        keys.sort_by_key(|it| order(it));
        assert_eq!(keys, [1_u32, 2, 256].map(|it| it.to_ne_bytes().to_vec()));
        assert_eq!(order(b"0123456789"), b"0123456789");
    }

    #[test]
    fn without_types_numbers_are_added_and_others_shown_by_cpu() {
        let types = Types { btf: None, key: None, value: None };
        let mut entries = Vec::new();
        let number = |it: u64| it.to_ne_bytes().to_vec();
        types.tell(&7_u32.to_ne_bytes(), vec![number(2), number(3)], &mut entries);
        types.tell(&[1, 255], vec![vec![0, 0], vec![1, 16]], &mut entries);
        let entry = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(entries, [entry("7", "5"), entry("01ff on CPU 1", "0110")]);
    }
}
