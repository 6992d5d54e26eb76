//! Call chains in the order of the report, and what makes two of their frames equal.

use rustc_hash::FxHashMap;

use super::FrameKey;
use super::Order;
use super::Plan;
use crate::replay::resolved::Group;
use crate::replay::resolved::Location;
use crate::replay::resolved::LocationId;
use crate::replay::resolved::Resolved;
use crate::replay::resolved::SourceLine;

/// The frames of a recording's locations: two locations are the same frame where they are in the
/// same function of the same module or, without a symbol, at the same address. What was inlined is
/// the same frame wherever it has the same name, as in perf.
#[derive(Debug)]
pub(super) struct Chains {
    frames: Vec<u32>,
    places: Vec<Place>,
    order: Order,
    max_stack: usize,
}

/// Where a frame is, in the order in which perf keeps frames of equal weight: the last first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    dso: Option<u32>,
    addr: u64,
    frame: u32,
    /// The rank of its name, where one was inlined.
    name: u32,
    is_inlined: bool,
}

/// What decides among frames of equal weight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OrderBy {
    Name,
    Addr,
}

/// What makes two locations the same frame.
#[derive(PartialEq, Eq, Hash)]
enum Key<'a> {
    /// Two files of one path, as of two containers, may have other functions at an address.
    Function(Option<u32>, u64, u32),
    Inlined(&'a str),
    Addr(Option<u32>, u64),
    Line(SourceLine),
}

/// A call chain, the root of the graph first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain<'a> {
    stack: &'a [LocationId],
    order: Order,
}

impl Chains {
    pub(super) fn new(resolved: &Resolved, plan: &Plan, name_ids: &[u32]) -> Self {
        let mut ids = FxHashMap::default();
        // Addresses outside all modules, which may be most of what there is.
        let mut outside = FxHashMap::default();
        let mut places = Vec::new();
        let has_inlined = resolved.symbols.iter().any(|it| it.is_inlined);
        let frame = |location: &Location| {
            let dso = location.dso.map(|it| it.0);
            let symbol = location.symbol.map(|it| &resolved.symbols[it.0 as usize]);
            let key_by = plan.graph.map_or(FrameKey::Function, |it| it.key);
            let (key, addr) = match symbol {
                _ if key_by == FrameKey::Address => {
                    (Key::Addr(dso, location.addr.0), location.addr.0)
                }
                _ if key_by == FrameKey::Line && location.line.is_some() => {
                    (location.line.map_or(Key::Addr(dso, 0), Key::Line), location.addr.0)
                }
                Some(it) if it.is_inlined => (Key::Inlined(&it.name), it.start.0),
                Some(it) => {
                    let name = location.symbol.map_or(0, |it| name_ids[it.0 as usize]);
                    (Key::Function(dso, it.start.0, name), it.start.0)
                }
                None => (Key::Addr(dso, location.ip.0), location.ip.0),
            };
            let next = u32::try_from(places.len()).expect("a frame at most for a location");
            let entry = match key {
                Key::Addr(None, addr) => outside.entry(addr).or_insert(next),
                key => ids.entry(key).or_insert(next),
            };
            if *entry == next {
                let ranked = location.symbol.filter(|_| has_inlined);
                let name = ranked.map_or(0, |it| name_ids[it.0 as usize]);
                let is_inlined = symbol.is_some_and(|it| it.is_inlined);
                places.push(Place { dso, addr, frame: next, name, is_inlined });
            }
            *entry
        };
        let frames = resolved.locations.iter().map(frame).collect();
        Self { frames, places, order: plan.chain_order, max_stack: plan.max_stack }
    }

    /// The chain of the samples of `group`, empty where they have none.
    pub(super) fn of<'a>(&self, resolved: &'a Resolved, group: &Group) -> Chain<'a> {
        let stack = group.stack.map_or(&[][..], |it| resolved.stacks.get(it));
        let stack = match self.order {
            _ if stack.len() <= self.max_stack => stack,
            Order::Callee => &stack[..first_frames(resolved, stack, self.max_stack)],
            Order::Caller => &stack[stack.len() - last_frames(resolved, stack, self.max_stack)..],
        };
        Chain { stack, order: self.order }
    }

    /// The frame of a location.
    pub(super) fn frame(&self, LocationId(id): LocationId) -> u32 {
        self.frames[id as usize]
    }

    /// The order of frames of equal weight under one node: by name where perf compares those.
    pub(super) fn place(&self, frame: u32, by: OrderBy) -> impl Ord {
        let place = self.places[frame as usize];
        let name = match by {
            OrderBy::Name => place.name,
            OrderBy::Addr => 0,
        };
        std::cmp::Reverse((name, place))
    }

    /// What perf compares of `frames` under one node: names if any was inlined.
    pub(super) fn order_by(&self, mut frames: impl Iterator<Item = u32>) -> OrderBy {
        let has_inlined = frames.any(|it| self.places[it as usize].is_inlined);
        if has_inlined { OrderBy::Name } else { OrderBy::Addr }
    }
}

/// The length of the first `n` frames of `stack`, with what was inlined into each.
fn first_frames(resolved: &Resolved, stack: &[LocationId], n: usize) -> usize {
    let mut ends = (1..).zip(stack).filter(|(_, it)| !resolved.is_inlined(**it)).map(|it| it.0);
    n.checked_sub(1).map_or(0, |idx| ends.nth(idx).unwrap_or(stack.len()))
}

/// The same of the last ones.
fn last_frames(resolved: &Resolved, stack: &[LocationId], n: usize) -> usize {
    let from_end = (0..).zip(stack.iter().rev());
    let mut starts = from_end.filter(|(_, it)| !resolved.is_inlined(**it)).map(|it| it.0);
    // What was inlined into the last frame stands before it.
    starts.nth(n).unwrap_or(stack.len())
}

impl Chain<'_> {
    /// The number of frames.
    pub(super) fn len(&self) -> usize {
        self.stack.len()
    }

    /// The location of the frame at `idx`, counted from the root of the graph.
    pub(super) fn get(&self, idx: usize) -> Option<LocationId> {
        match self.order {
            Order::Callee => self.stack.get(idx).copied(),
            Order::Caller => {
                self.stack.len().checked_sub(idx + 1).and_then(|it| self.stack.get(it)).copied()
            }
        }
    }
}
