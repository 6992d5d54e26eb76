//! Sampled addresses to one frame for each function, for what does not tell the addresses of a function
//! apart: so the tables of a report are as large as the report, however many addresses were sampled.

use rustc_hash::FxHashMap;

use crate::perfdata::misc;
use crate::units::Addr;

use super::Frame;
use super::Names;
use super::Resolver;
use super::TaskAt;
use super::distinct::Frames;
use super::resolved::Level;
use super::spans::Moment;
use super::timeline::Owner;
use super::timeline::Timeline;

/// The functions that one thread has met.
///
/// What was met is remembered in tables of a fixed size that fit into the caches, where the later takes the
/// place of the earlier: to look it up again costs less than memory that is not at hand.
pub(super) struct Functions<'a> {
    timeline: &'a Timeline,
    names: &'a Names<'a>,
    mapped: Recent<Space, Mapped>,
    user: Recent<(u32, u64), ()>,
    kernel: Recent<(u32, u32, u64), ()>,
    ids: FxHashMap<Function, u32>,
}

/// An address space in one state, and which part of it.
type Space = (u32, u32, u64);

/// A mapping of it.
#[derive(Clone, Copy, Default)]
struct Mapped {
    start: u64,
    end: u64,
    bias: u64,
    module: u32,
}

/// A function of a module, or an address of it that has no name.
#[derive(PartialEq, Eq, Hash)]
struct Function {
    module: u32,
    level: Level,
    start: Addr,
    /// Where its name lies, since two may begin at one address; 0 without.
    name: usize,
}

/// Addresses that share an entry of [`Functions::mapped`].
const PART_BITS: u32 = 20;

impl<'a> Functions<'a> {
    pub(super) fn new(timeline: &'a Timeline, names: &'a Names<'a>) -> Self {
        Self {
            timeline,
            names,
            mapped: Recent::new(10),
            user: Recent::new(15),
            kernel: Recent::new(13),
            ids: FxHashMap::default(),
        }
    }

    /// The number in `frames` of the first frame met of the function where `ip` is, at the privilege
    /// `cpumode`.
    pub(super) fn frame(
        &mut self,
        frames: &mut Frames,
        resolver: &Resolver<'_>,
        task: &TaskAt,
        (cpumode, ip): (u16, u64),
        moment: Moment,
    ) -> u32 {
        match cpumode {
            misc::USER => self.user(frames, task, ip, moment),
            misc::KERNEL => {
                let [_, _, symbols, maps] = task.process.version;
                let at = (symbols, maps, ip);
                if let Some((id, ())) = self.kernel.get(ip, at) {
                    return id;
                }
                let id = self.id(frames, resolver.frame(task, cpumode, ip, moment));
                self.kernel.put(ip, at, id, ());
                id
            }
            _ => frames.id(resolver.frame(task, cpumode, ip, moment)),
        }
    }

    fn user(&mut self, frames: &mut Frames, task: &TaskAt, ip: u64, moment: Moment) -> u32 {
        let [space, version, ..] = task.process.version;
        let part = (space, version, ip >> PART_BITS);
        let spread = part.2 ^ u64::from(space) << 32;
        let is_there = |(_, it): &(u32, Mapped)| (it.start..it.end).contains(&ip);
        let (mapping, mapped) = match self.mapped.get(spread, part).filter(is_there) {
            Some(found) => found,
            None => {
                let Some((mapping, range)) = self.timeline.mapped(&task.process, ip, moment) else {
                    return frames.id(user_frame(ip, None));
                };
                let owner = self.timeline.mapping(mapping);
                // What a process made at its address is named by that and the time.
                if owner.jit_code.is_some() {
                    return self.id(frames, user_frame(ip, Some(mapping)));
                }
                let module = self.names.module_of(mapping);
                let mapped =
                    Mapped { start: range.start, end: range.end, bias: owner.bias, module };
                self.mapped.put(spread, part, mapping, mapped);
                (mapping, mapped)
            }
        };
        let at = (mapped.module, ip.wrapping_sub(mapped.bias));
        let spread = at.1 ^ u64::from(at.0) << 40;
        if let Some((id, ())) = self.user.get(spread, at) {
            return id;
        }
        let id = self.id(frames, user_frame(ip, Some(mapping)));
        self.user.put(spread, at, id, ());
        id
    }

    /// The number of the frame that stands for `frame`.
    fn id(&mut self, frames: &mut Frames, frame: Frame) -> u32 {
        let Some(Owner::Mapping(mapping)) = frame.owner else { return frames.id(frame) };
        let name = self.names.name(&frame);
        let function = Function {
            module: self.names.module_of(mapping),
            level: frame.level,
            start: name.symbol.map_or(name.addr, |it| it.start),
            name: name.symbol.map_or(0, |it| it.raw.as_ptr().addr()),
        };
        *self.ids.entry(function).or_insert_with(|| frames.id(frame))
    }
}

fn user_frame(ip: u64, mapping: Option<u32>) -> Frame {
    let owner = mapping.map(Owner::Mapping);
    Frame { ip: Addr(ip), owner, level: Level::User, is_return_address: false }
}

/// What was looked up lately: a number and more for each of some keys.
pub(super) struct Recent<K, V> {
    entries: Vec<(K, u32, V)>,
    shift: u32,
}

/// The number of nothing.
const NOTHING: u32 = u32::MAX;

impl<K: Copy + Default + Eq, V: Copy + Default> Recent<K, V> {
    /// Room for 2 to the power of `bits`.
    pub(super) fn new(bits: u32) -> Self {
        let entry = (K::default(), NOTHING, V::default());
        Self { entries: vec![entry; 1 << bits], shift: 64 - bits }
    }

    /// What `key` has, which is told from others well by `spread`.
    #[inline]
    pub(super) fn get(&self, spread: u64, key: K) -> Option<(u32, V)> {
        let (found, id, value) = self.entries.get(self.place(spread))?;
        (*found == key && *id != NOTHING).then_some((*id, *value))
    }

    pub(super) fn put(&mut self, spread: u64, key: K, id: u32, value: V) {
        let place = self.place(spread);
        if let Some(entry) = self.entries.get_mut(place) {
            *entry = (key, id, value);
        }
    }

    #[inline]
    fn place(&self, spread: u64) -> usize {
        let mixed = spread.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift;
        usize::try_from(mixed).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_takes_the_place_of_the_earlier() {
        let mut recent = Recent::new(1);
        assert_eq!(recent.get(0, 0_u64), None);
        recent.put(0, 0, 7, 'a');
        assert_eq!(recent.get(0, 0), Some((7, 'a')));
        assert_eq!(recent.get(0, 1), None);
        recent.put(0, 1, 8, 'b');
        assert_eq!((recent.get(0, 0), recent.get(0, 1)), (None, Some((8, 'b'))));
    }
}
