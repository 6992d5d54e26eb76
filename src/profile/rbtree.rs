//! A red-black tree as the kernel's `lib/rbtree.c` grows it.
//!
//! perf orders rows by a comparison that is no order: of three rows the first can stand before the
//! second, that before the third, and that before the first. Where they end up then depends on the
//! path that each takes through the tree, so the same tree is grown.

use std::cmp::Ordering;

use super::order::Lead;

/// No node.
const NIL: u32 = u32::MAX >> 1;

#[derive(Clone, Copy)]
struct Node<L> {
    lead: L,
    /// The number of its parent, which is [`NIL`] for the root, below [`RED`].
    parent: u32,
    children: [u32; 2],
}

/// Set in [`Node::parent`] of a red node.
const RED: u32 = 1 << 31;

/// The numbers of `leads`, inserted one after the other, in the order in which the tree has them.
///
/// Where a new number goes is said by its lead and that of the old one, else by `compare(new, old)`:
/// [`Ordering::Less`] is to the left, anything else to the right.
pub(super) fn sorted<L: Lead>(
    leads: &[L],
    mut compare: impl FnMut(u32, u32) -> Ordering,
) -> Vec<u32> {
    let mut tree = Tree { nodes: Vec::with_capacity(leads.len()), root: NIL };
    for (new, lead) in (0..).zip(leads) {
        let (mut parent, mut side) = (NIL, 0);
        let mut at = tree.root;
        while at != NIL {
            parent = at;
            let old = &tree.nodes[at as usize];
            let order = lead.compare(&old.lead).then_with(|| compare(new, at));
            side = usize::from(order != Ordering::Less);
            at = old.children[side];
        }
        tree.nodes.push(Node { lead: *lead, parent: parent | RED, children: [NIL, NIL] });
        match parent {
            NIL => tree.root = new,
            _ => tree.nodes[parent as usize].children[side] = new,
        }
        tree.rebalance(new);
    }
    tree.in_order()
}

struct Tree<L> {
    nodes: Vec<Node<L>>,
    root: u32,
}

impl<L: Lead> Tree<L> {
    fn rebalance(&mut self, mut node: u32) {
        loop {
            let mut parent = self.parent(node);
            if parent == NIL {
                self.blacken(node);
                return;
            }
            if !self.is_red(parent) {
                return;
            }
            let grandparent = self.parent(parent);
            let side = self.side(parent);
            let uncle = self.nodes[grandparent as usize].children[1 - side];
            if self.is_red(uncle) {
                self.blacken(uncle);
                self.blacken(parent);
                self.redden(grandparent);
                node = grandparent;
                continue;
            }
            if self.side(node) != side {
                self.rotate(parent, side);
                parent = node;
            }
            self.rotate(grandparent, 1 - side);
            self.blacken(parent);
            self.redden(grandparent);
            return;
        }
    }

    /// Moves `node` down to `side`, its child of the other side up to its place.
    fn rotate(&mut self, node: u32, side: usize) {
        let child = self.nodes[node as usize].children[1 - side];
        let inner = self.nodes[child as usize].children[side];
        let parent = self.parent(node);
        if parent == NIL {
            self.root = child;
        } else {
            let at = self.side(node);
            self.nodes[parent as usize].children[at] = child;
        }
        self.set_parent(child, parent);
        self.nodes[child as usize].children[side] = node;
        self.set_parent(node, child);
        self.nodes[node as usize].children[1 - side] = inner;
        if inner != NIL {
            self.set_parent(inner, node);
        }
    }

    fn parent(&self, node: u32) -> u32 {
        self.nodes[node as usize].parent & !RED
    }

    fn set_parent(&mut self, node: u32, parent: u32) {
        let node = &mut self.nodes[node as usize];
        node.parent = node.parent & RED | parent;
    }

    fn is_red(&self, node: u32) -> bool {
        node != NIL && self.nodes[node as usize].parent & RED != 0
    }

    fn redden(&mut self, node: u32) {
        self.nodes[node as usize].parent |= RED;
    }

    fn blacken(&mut self, node: u32) {
        self.nodes[node as usize].parent &= !RED;
    }

    /// Which child of its parent `node` is.
    fn side(&self, node: u32) -> usize {
        let parent = self.parent(node);
        usize::from(self.nodes[parent as usize].children[1] == node)
    }

    fn in_order(&self) -> Vec<u32> {
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut path = Vec::new();
        let mut at = self.root;
        loop {
            while at != NIL {
                path.push(at);
                at = self.nodes[at as usize].children[0];
            }
            let Some(node) = path.pop() else { return order };
            order.push(node);
            at = self.nodes[node as usize].children[1];
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Says nothing, so that what it stands for is compared.
    #[derive(Clone, Copy)]
    pub(in crate::profile) struct Silent;

    impl Lead for Silent {
        fn compare(&self, _: &Self) -> Ordering {
            Ordering::Equal
        }
    }

    /// A number of which all but the last bit leads.
    #[derive(Clone, Copy)]
    struct Rough(u64);

    impl Lead for Rough {
        fn compare(&self, other: &Self) -> Ordering {
            (self.0 >> 1).cmp(&(other.0 >> 1))
        }
    }

    #[test]
    fn numbers_come_out_in_order_and_equal_ones_as_they_went_in() {
        let keys: Vec<u64> = (0..5000_u64).map(|it| it.wrapping_mul(0x9e37_79b9) % 97).collect();
        let compare = |a: u32, b: u32| keys[a as usize].cmp(&keys[b as usize]);
        let order = sorted(&[Silent; 5000], compare);
        let mut want: Vec<u32> = (0..5000).collect();
        want.sort_by_key(|&it| keys[it as usize]);
        assert_eq!(order, want);
        let leads: Vec<_> = keys.iter().map(|it| Rough(*it)).collect();
        assert_eq!(sorted(&leads, compare), want);
    }

    #[test]
    fn the_tree_stays_flat() {
        let mut n_comparisons = 0;
        sorted(&[Silent; 4096], |a, b| {
            n_comparisons += 1;
            a.cmp(&b)
        });
        assert!(n_comparisons < 4096 * 24, "{n_comparisons}");
    }

    #[test]
    fn where_the_comparison_is_no_order_the_path_through_the_tree_decides() {
        // Rock, paper, scissors: 0 < 1 < 2 < 0. With 1 at the root, 2 goes right; then 0, 1, 2.
        let order =
            sorted(
                &[Silent; 3],
                |a, b| if (a + 1) % 3 == b { Ordering::Less } else { Ordering::Greater },
            );
        // 0 is the root; 1 goes right of it, 2 left since 2 < 0.
        assert_eq!(order, [2, 0, 1]);
    }
}
