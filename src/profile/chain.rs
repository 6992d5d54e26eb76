//! Call chains in the order of the report, and what makes two of their frames equal.

use rustc_hash::FxHashMap;

use super::Order;
use super::Plan;
use crate::replay::resolved::Group;
use crate::replay::resolved::Location;
use crate::replay::resolved::LocationId;
use crate::replay::resolved::Resolved;

/// The frames of a recording's locations: two locations are the same frame where they are in the
/// same function of the same module or, without a symbol, at the same address.
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
}

/// A call chain, the root of the graph first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chain<'a> {
    stack: &'a [LocationId],
    order: Order,
}

impl Chains {
    pub(super) fn new(resolved: &Resolved, plan: &Plan) -> Self {
        let mut ids = FxHashMap::default();
        let mut places = Vec::new();
        let frame = |location: &Location| {
            let dso = location.dso.map(|it| it.0);
            let start = location.symbol.map(|it| resolved.symbols[it.0 as usize].start.0);
            let key = (dso, start, start.map_or(location.ip.0, |_| 0));
            let next = u32::try_from(places.len()).expect("a frame at most for a location");
            *ids.entry(key).or_insert_with(|| {
                let addr = start.unwrap_or(location.ip.0);
                places.push(Place { dso, addr, frame: next });
                next
            })
        };
        let frames = resolved.locations.iter().map(frame).collect();
        Self { frames, places, order: plan.chain_order, max_stack: plan.max_stack }
    }

    /// The chain of the samples of `group`, empty where they have none.
    pub(super) fn of<'a>(&self, resolved: &'a Resolved, group: &Group) -> Chain<'a> {
        let stack = group.stack.map_or(&[][..], |it| resolved.stacks.get(it));
        let len = stack.len().min(self.max_stack);
        let stack = match self.order {
            Order::Callee => &stack[..len],
            Order::Caller => &stack[stack.len() - len..],
        };
        Chain { stack, order: self.order }
    }

    /// The frame of a location.
    pub(super) fn frame(&self, LocationId(id): LocationId) -> u32 {
        self.frames[id as usize]
    }

    /// The order of frames of equal weight under one node.
    pub(super) fn place(&self, frame: u32) -> impl Ord {
        std::cmp::Reverse(self.places[frame as usize])
    }
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
