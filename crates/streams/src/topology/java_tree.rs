//! The order of a Java `TreeSet` whose elements change their place after they were added: `describe()` of Kafka Streams
//! shows it.
//!
//! The set compares a new element with those on one path from the root of its red-black tree, and nothing moves later.
//! So the order depends on the tree's shape, which this keeps as Java does.

use std::cmp::Ordering;

/// Indices of elements, in a red-black tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct JavaTree {
    nodes: Vec<TreeNode>,
    root: Option<usize>,
}

#[derive(Debug, Clone)]
struct TreeNode {
    element: usize,
    parent: Option<usize>,
    /// Of smaller and larger elements.
    children: [Option<usize>; 2],
    is_red: bool,
}

const SMALLER: usize = 0;
const LARGER: usize = 1;

impl JavaTree {
    /// Adds `element`, unless the path to its place has one that `compare` finds equal. `compare` tells how the new
    /// element compares with one that is in the tree.
    pub(crate) fn insert(&mut self, element: usize, compare: impl Fn(usize) -> Ordering) {
        let mut place = self.root;
        let mut parent = None;
        let mut side = SMALLER;
        while let Some(node) = place {
            parent = Some(node);
            side = match compare(self.nodes[node].element) {
                Ordering::Less => SMALLER,
                Ordering::Greater => LARGER,
                Ordering::Equal => return,
            };
            place = self.nodes[node].children[side];
        }
        let new = self.nodes.len();
        self.nodes.push(TreeNode {
            element,
            parent,
            children: [None; 2],
            is_red: true,
        });
        match parent {
            Some(parent) => self.nodes[parent].children[side] = Some(new),
            None => self.root = Some(new),
        }
        self.rebalance(new);
    }

    /// The elements, as the set gives them.
    pub(crate) fn elements(&self) -> Vec<usize> {
        let mut elements = Vec::with_capacity(self.nodes.len());
        let mut above = Vec::new();
        let mut next = self.root;
        loop {
            while let Some(node) = next {
                above.push(node);
                next = self.nodes[node].children[SMALLER];
            }
            let Some(node) = above.pop() else {
                return elements;
            };
            elements.push(self.nodes[node].element);
            next = self.nodes[node].children[LARGER];
        }
    }

    /// No red node has a red parent, and all paths have as many black ones: of a tree in which only `node` breaks this.
    fn rebalance(&mut self, mut node: usize) {
        while let Some(parent) = self.red_parent(node) {
            // A red node is never the root.
            let Some(grandparent) = self.nodes[parent].parent else {
                break;
            };
            let side = self.side(parent, grandparent);
            let other = 1 - side;
            match self.nodes[grandparent].children[other] {
                Some(uncle) if self.nodes[uncle].is_red => {
                    self.nodes[parent].is_red = false;
                    self.nodes[uncle].is_red = false;
                    self.nodes[grandparent].is_red = true;
                    node = grandparent;
                }
                _ => {
                    let mut top = parent;
                    if self.side(node, parent) == other {
                        self.rotate(parent, side);
                        (top, node) = (node, parent);
                    }
                    self.nodes[top].is_red = false;
                    self.nodes[grandparent].is_red = true;
                    self.rotate(grandparent, other);
                }
            }
        }
        if let Some(root) = self.root {
            self.nodes[root].is_red = false;
        }
    }

    fn red_parent(&self, node: usize) -> Option<usize> {
        self.nodes[node]
            .parent
            .filter(|parent| self.nodes[*parent].is_red)
    }

    /// Which child of `parent` this is.
    fn side(&self, node: usize, parent: usize) -> usize {
        match self.nodes[parent].children[SMALLER] == Some(node) {
            true => SMALLER,
            false => LARGER,
        }
    }

    /// Puts the child on the other side in the place of `node`, which becomes that one's child on `side`.
    fn rotate(&mut self, node: usize, side: usize) {
        let other = 1 - side;
        let Some(up) = self.nodes[node].children[other] else {
            return;
        };
        let inner = self.nodes[up].children[side];
        self.nodes[node].children[other] = inner;
        if let Some(inner) = inner {
            self.nodes[inner].parent = Some(node);
        }
        let parent = self.nodes[node].parent;
        match parent {
            Some(parent) => {
                let of_parent = self.side(node, parent);
                self.nodes[parent].children[of_parent] = Some(up);
            }
            None => self.root = Some(up),
        }
        self.nodes[up].parent = parent;
        self.nodes[up].children[side] = Some(node);
        self.nodes[node].parent = Some(up);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl JavaTree {
        /// Black nodes on each path below `node`; red nodes have black children.
        fn black_count(&self, node: Option<usize>) -> usize {
            let Some(node) = node else {
                return 1;
            };
            let node = &self.nodes[node];
            let [smaller, larger] = node.children.map(|child| {
                let is_red = child.is_some_and(|child| self.nodes[child].is_red);
                assert!(!(node.is_red && is_red), "a red node has a red child");
                self.black_count(child)
            });
            assert_eq!(smaller, larger, "paths have as many black nodes");
            smaller + usize::from(!node.is_red)
        }
    }

    proptest! {
        #![proptest_config(trials::property(256))]

        #[test]
        fn elements_that_stay_what_they_are_are_sorted_and_the_tree_is_balanced(
            elements in proptest::collection::vec(0_usize..100, 0..60)
        ) {
            let mut tree = JavaTree::default();
            for element in &elements {
                tree.insert(*element, |other| element.cmp(&other));
                tree.black_count(tree.root);
            }
            let expected: std::collections::BTreeSet<usize> = elements.into_iter().collect();
            prop_assert_eq!(tree.elements(), expected.into_iter().collect::<Vec<_>>());
        }
    }
}
