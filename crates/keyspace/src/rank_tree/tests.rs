//! The tree against a plain `Vec`, and its shape against its invariants.

use super::node::NODE_MAX;
use super::*;
use proptest::prelude::*;

#[derive(Debug, Clone, PartialEq, Eq)]
struct Item {
    name: u32,
    weight: usize,
}

impl Weighted for Item {
    fn weight(&self) -> usize {
        self.weight
    }
}

impl Weighted for u32 {
    fn weight(&self) -> usize {
        1
    }
}

#[derive(Debug, Clone)]
enum Op {
    Insert(usize, usize),
    Remove(usize),
    Update(usize, usize),
    PushFront(usize),
    PushBack(usize),
    PopFront,
    PopBack,
    /// Many of one kind, so that trees grow past one level and shrink again.
    Burst(u8, usize, usize),
}

fn op() -> impl Strategy<Value = Op> {
    let at = any::<usize>();
    let weight = 1..9usize;
    prop_oneof![
        (at, weight.clone()).prop_map(|(at, weight)| Op::Insert(at, weight)),
        at.prop_map(Op::Remove),
        (at, weight.clone()).prop_map(|(at, weight)| Op::Update(at, weight)),
        weight.clone().prop_map(Op::PushFront),
        weight.prop_map(Op::PushBack),
        Just(Op::PopFront),
        Just(Op::PopBack),
        (0..8u8, at, 1..700usize).prop_map(|(kind, at, count)| Op::Burst(kind, at, count)),
    ]
}

struct Pair {
    tree: RankTree<Item>,
    model: Vec<Item>,
    next: u32,
}

impl Pair {
    fn item(&mut self, weight: usize) -> Item {
        self.next += 1;
        Item { name: self.next, weight }
    }

    fn apply(&mut self, op: &Op) {
        let len = self.model.len();
        match *op {
            Op::Insert(at, weight) => {
                let item = self.item(weight);
                self.tree.insert(at % (len + 1), item.clone());
                self.model.insert(at % (len + 1), item);
            }
            Op::Remove(at) if len > 0 => {
                assert_eq!(self.tree.remove(at % len), self.model.remove(at % len));
            }
            Op::Update(at, weight) if len > 0 => {
                let old =
                    self.tree.update(at % len, |item| std::mem::replace(&mut item.weight, weight));
                assert_eq!(old, std::mem::replace(&mut self.model[at % len].weight, weight));
            }
            Op::Remove(_) | Op::Update(..) => {}
            Op::PushFront(weight) => {
                let item = self.item(weight);
                self.tree.push_front(item.clone());
                self.model.insert(0, item);
            }
            Op::PushBack(weight) => {
                let item = self.item(weight);
                self.tree.push_back(item.clone());
                self.model.push(item);
            }
            Op::PopFront => {
                let expected = (len > 0).then(|| self.model.remove(0));
                assert_eq!(self.tree.pop_front(), expected);
            }
            Op::PopBack => assert_eq!(self.tree.pop_back(), self.model.pop()),
            Op::Burst(kind, at, count) => {
                for step in 0..count {
                    let weight = step % 3 + 1;
                    let scattered = at.wrapping_add(step.wrapping_mul(0x9E37_79B9_7F4A_7C15));
                    self.apply(&match kind {
                        0 => Op::PushBack(weight),
                        1 => Op::PushFront(weight),
                        2 => Op::Insert(at, weight),
                        3 => Op::Insert(scattered, weight),
                        4 => Op::Remove(scattered),
                        5 => Op::Remove(at),
                        6 => Op::PopFront,
                        _ => Op::PopBack,
                    });
                }
            }
        }
    }

    fn check(&self, probe: usize) {
        check_shape(&self.tree);
        let (tree, model) = (&self.tree, &self.model);
        assert!(tree.iter().eq(model.iter()));
        assert!(tree.iter().rev().eq(model.iter().rev()));
        assert_eq!((tree.len(), tree.is_empty()), (model.len(), model.is_empty()));
        assert_eq!(tree.weight(), weight_of(model));
        assert_eq!((tree.first(), tree.last()), (model.first(), model.last()));

        let index = probe % (model.len() + 2);
        assert_eq!(tree.get(index), model.get(index));
        assert_eq!(tree.weight_before(index), weight_of(&model[..index.min(model.len())]));
        assert!(tree.iter_from(index).eq(model.iter().skip(index)));
        assert!(tree.iter_from_back(index).eq(model.iter().take(index + 1).rev()));

        let position = probe % (tree.weight() + 2);
        let mut before = 0;
        let expected = model.iter().position(|item| {
            before += item.weight;
            before > position
        });
        assert_eq!(
            tree.find(position),
            expected.map(|at| (at, position - (before - model[at].weight)))
        );
    }
}

/// Checks every invariant that the head of the file promises.
fn check_shape<T: Weighted>(tree: &RankTree<T>) {
    fn walk<T: Weighted>(subtree: &Subtree<T>, edges: Edges) -> (usize, usize) {
        let (counted, depth, bytes) = match &subtree.node {
            Node::Leaf(items) => ((items.len(), weight_of(items)), 0, 0),
            Node::Inner(children) => {
                let below: Vec<_> = children
                    .iter()
                    .enumerate()
                    .map(|(at, child)| walk(child, edges.of_child(at, children.len())))
                    .collect();
                let len = children.iter().map(|child| child.len).sum();
                let weight = children.iter().map(|child| child.weight).sum();
                assert!(below.iter().all(|child| child.0 == below[0].0), "one depth");
                ((len, weight), below[0].0 + 1, below.iter().map(|child| child.1).sum())
            }
        };
        assert_eq!((subtree.len, subtree.weight), counted);
        assert!(subtree.entry_count() <= NODE_MAX);
        assert!(!edges.none() || subtree.entry_count() >= NODE_MIN, "half full off the edges");
        assert!(subtree.entry_count() > 0 || (edges.left && edges.right), "not empty");
        (depth, bytes + subtree.own_bytes())
    }
    let (_, bytes) = walk(&tree.root, Edges::ROOT);
    assert_eq!(tree.allocated_bytes(), bytes);
    if let Node::Inner(children) = &tree.root.node {
        assert!(children.len() >= 2);
        assert!(children.iter().map(Subtree::entry_count).sum::<usize>() > NODE_MIN);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn a_tree_is_a_sequence(ops in prop::collection::vec((op(), any::<usize>()), 0..60), packed in 0..9000usize) {
        let model: Vec<Item> =
            (0..packed).map(|at| Item { name: u32::MAX, weight: at % 5 + 1 }).collect();
        let mut pair = Pair { tree: model.iter().cloned().collect(), model, next: 0 };
        pair.check(packed / 2);
        for (op, probe) in &ops {
            pair.apply(op);
            pair.check(*probe);
        }
        while !pair.model.is_empty() {
            pair.apply(&Op::Remove(pair.model.len() / 3));
            if pair.model.len().is_multiple_of(97) {
                check_shape(&pair.tree);
            }
        }
        assert_eq!(pair.tree.len(), 0);
    }

    #[test]
    fn searching_finds_the_boundary(len in 0..20_000u32, wanted in 0..20_001u32) {
        let tree: RankTree<u32> = (0..len).collect();
        let mut compared = 0;
        let found = tree.partition_point(|item| {
            compared += 1;
            *item < wanted
        });
        assert_eq!(found, wanted.min(len) as usize);
        assert!(compared <= 24, "{compared} comparisons");
    }

    #[test]
    fn a_range_may_be_read_from_both_ends(len in 0..600u32, start in 0..700usize, end in 0..700usize, turns in any::<u64>()) {
        let tree: RankTree<u32> = (0..len).collect();
        let len = len as usize;
        let end_there = end.min(len);
        let mut expected: std::collections::VecDeque<u32> =
            (start.min(end_there)..end_there).map(|at| u32::try_from(at).expect("small")).collect();
        let mut items = tree.range(start..end);
        for turn in 0.. {
            assert_eq!(items.len(), expected.len());
            let (got, wanted) = if turns >> (turn % 64) & 1 == 0 {
                (items.next(), expected.pop_front())
            } else {
                (items.next_back(), expected.pop_back())
            };
            assert_eq!(got.copied(), wanted);
            if wanted.is_none() {
                break;
            }
        }
    }
}

#[test]
fn appending_and_prepending_leave_full_nodes() {
    let (mut back, mut front) = (RankTree::new(), RankTree::new());
    for item in 0..100_000u32 {
        back.push_back(item);
        front.push_front(item);
    }
    assert!(front.iter().rev().eq(back.iter()));
    for tree in [&back, &front] {
        check_shape(tree);
        let payload = 100_000 * size_of::<u32>();
        let overhead = tree.allocated_bytes() - payload;
        assert!(overhead < payload / 5, "{overhead} bytes over {payload}");
    }
}

#[test]
fn a_queue_stays_shallow_and_small() {
    let mut queue: RankTree<u32> = (0..10_000).collect();
    for item in 0..200_000 {
        queue.push_back(item);
        assert!(queue.pop_front().is_some());
    }
    check_shape(&queue);
    while queue.len() > 10 {
        queue.pop_front();
        queue.pop_back();
    }
    check_shape(&queue);
    assert!(matches!(queue.root.node, Node::Leaf(_)), "{queue:?}");
    assert!(queue.allocated_bytes() < 64 * size_of::<u32>());
}
