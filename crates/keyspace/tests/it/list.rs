//! Lists against a vector, through the log.

use base::RecordKind;
use keyspace::list::{End, List, ListGuard};
use keyspace::packed::PACKED_BYTES_MAX;
use proptest::prelude::*;

use crate::DB0;
use crate::journal::{LoggedKeyspace, MemoryLog};

type Element = Vec<u8>;

/// One command's change, or what happens between commands.
#[derive(Debug, Clone)]
enum Step {
    Push(End, Vec<Element>),
    Insert(usize, Element),
    /// Many elements at one place, each by a command of its own.
    Crowd(usize, Vec<Element>),
    Set(usize, Element),
    Cut(End, usize),
    RemoveEqual(Element, End, usize),
    /// Empties the list and fills it again in one change.
    Refill(Vec<Element>),
    Delete,
    /// Replaces the list by a copy of it under another key.
    Copy,
    /// Replays the log, with every `n`-th of the retired records.
    Restart(usize),
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![Just(End::Front), Just(End::Back)]
}

/// Few different elements of every size that matters, so that some are equal.
fn element() -> impl Strategy<Value = Element> {
    let sizes = prop::sample::select(vec![0, 1, 1, 2, 30, 60, 120, 200, 252, 253, 254, 300, 2000]);
    (sizes, b'a'..=b'c').prop_map(|(size, letter)| vec![letter; size])
}

fn elements(max: usize) -> impl Strategy<Value = Vec<Element>> {
    prop::collection::vec(element(), 1..=max)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (end(), elements(40)).prop_map(|(end, elements)| Step::Push(end, elements)),
        4 => (any::<usize>(), element()).prop_map(|(at, element)| Step::Insert(at, element)),
        2 => (any::<usize>(), elements(60)).prop_map(|(at, all)| Step::Crowd(at, all)),
        3 => (any::<usize>(), element()).prop_map(|(at, element)| Step::Set(at, element)),
        3 => (end(), 0..30usize).prop_map(|(end, count)| Step::Cut(end, count)),
        3 => (element(), end(), 0..20usize).prop_map(|(e, end, max)| Step::RemoveEqual(e, end, max)),
        1 => elements(20).prop_map(Step::Refill),
        1 => Just(Step::Delete),
        1 => Just(Step::Copy),
        2 => (1..5usize).prop_map(Step::Restart),
    ]
}

/// A list and what it should be.
struct Checked {
    log: MemoryLog,
    keyspace: LoggedKeyspace,
    model: Vec<Element>,
}

impl Checked {
    fn new() -> Self {
        let log = MemoryLog::default();
        Self { keyspace: log.keyspace(), log, model: Vec::new() }
    }

    fn change(&mut self, change: impl FnOnce(&mut ListGuard<'_>)) {
        self.keyspace.update::<List, _>(DB0, b"list", true, change).expect("it is a list");
    }

    fn push(&mut self, end: End, elements: &[Element]) {
        self.change(|list| elements.iter().for_each(|element| list.push(end, element)));
        for element in elements {
            let at = if end == End::Front { 0 } else { self.model.len() };
            self.model.insert(at, element.clone());
        }
    }

    fn insert(&mut self, at: usize, element: &Element) {
        self.change(|list| list.insert(at, element));
        self.model.insert(at, element.clone());
    }

    fn cut(&mut self, end: End, count: usize) {
        self.change(|list| list.cut(end, count));
        let count = count.min(self.model.len());
        let first = if end == End::Front { 0 } else { self.model.len() - count };
        self.model.drain(first..first + count);
    }

    fn remove_equal(&mut self, element: &Element, end: End, count_max: usize) {
        let mut removed = 0;
        self.change(|list| removed = list.remove_equal(element, end, count_max));
        let mut left = count_max;
        let mut keep = |other: &Element| {
            let goes = other == element && left > 0;
            left -= usize::from(goes);
            !goes
        };
        if end == End::Front {
            self.model.retain(&mut keep);
        } else {
            let kept: Vec<Element> = self.model.drain(..).rev().filter(&mut keep).collect();
            self.model.extend(kept.into_iter().rev());
        }
        assert_eq!(removed, count_max - left);
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Push(end, elements) => self.push(*end, elements),
            Step::Insert(at, element) => self.insert(at % (self.model.len() + 1), element),
            Step::Crowd(at, elements) => {
                let at = at % (self.model.len() + 1);
                elements.iter().for_each(|element| self.insert(at, element));
            }
            Step::Set(_, _) if self.model.is_empty() => {}
            Step::Set(at, element) => {
                let at = at % self.model.len();
                self.change(|list| list.set(at, element));
                self.model[at].clone_from(element);
            }
            Step::Cut(end, count) => self.cut(*end, *count),
            Step::RemoveEqual(element, end, max) => self.remove_equal(element, *end, *max),
            Step::Refill(elements) => {
                self.change(|list| {
                    list.cut(End::Back, usize::MAX);
                    elements.iter().for_each(|element| list.push(End::Back, element));
                });
                self.model.clone_from(elements);
            }
            Step::Delete => {
                self.keyspace.delete(DB0, b"list");
                self.model.clear();
            }
            Step::Copy => {
                self.keyspace.copy(DB0, b"list", DB0, b"copy");
                self.keyspace.rename(DB0, b"copy", DB0, b"list");
            }
            Step::Restart(nth) => self.restart(|at| at % nth == 0),
        }
    }

    fn restart(&mut self, keeps: impl FnMut(usize) -> bool) {
        while self.keyspace.free_step(100) {}
        self.keyspace = self.log.replay(keeps);
    }

    fn check(&mut self) {
        let Some(list) = self.keyspace.read::<List>(DB0, b"list").expect("it is a list") else {
            assert!(self.model.is_empty());
            return;
        };
        assert_eq!(list.len(), self.model.len());
        assert!(!list.is_empty());
        assert!(list.iter_from(0).eq(self.model.iter()));
        assert!(list.iter_back_from(usize::MAX).eq(self.model.iter().rev()));
        let middle = self.model.len() / 2;
        assert_eq!(list.get(middle), self.model.get(middle).map(Vec::as_slice));
        assert!(list.iter_from(middle).eq(self.model[middle..].iter()));
        assert!(list.iter_back_from(middle).eq(self.model[..=middle].iter().rev()));
        assert_eq!(list.get(self.model.len()), None);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    #[test]
    fn a_list_is_a_vector_and_survives_replay(steps in prop::collection::vec(step(), 1..50)) {
        let mut checked = Checked::new();
        for step in &steps {
            checked.step(step);
            checked.check();
        }
        for nth in [1, 2, usize::MAX] {
            checked.restart(|at| at % nth == 0);
            checked.check();
        }
    }
}

#[test]
fn one_command_logs_a_node_once() {
    let mut checked = Checked::new();
    let elements = vec![b"0123456789".to_vec(); 1000];
    checked.push(End::Back, &elements);
    checked.check();
    let bytes: usize = checked.log.records().iter().map(|logged| logged.value.len()).sum();
    assert!(bytes < 1000 * 12, "11 bytes an element and the flags, not {bytes}");

    let before = checked.log.records().len();
    checked.push(End::Back, &elements[..1]);
    checked.push(End::Front, &elements[..1]);
    let records = checked.log.records();
    assert_eq!(records.len(), before + 2);
    assert!(records.iter().all(|logged| logged.value.len() <= PACKED_BYTES_MAX));
}

#[test]
fn an_emptied_list_is_one_record() {
    let mut checked = Checked::new();
    checked.push(End::Back, &vec![vec![b'x'; 100]; 100]);
    let before = checked.log.records().len();
    checked.cut(End::Front, 100);
    assert!(!checked.keyspace.exists(DB0, b"list", false));
    let records = checked.log.records();
    assert_eq!(records.len(), before + 1);
    assert_eq!(records[before].kind, RecordKind::KeyDeleted);
    assert!(records[..before].iter().all(|logged| logged.is_retired));
}

#[test]
fn insertions_at_one_place_rename_few_nodes() {
    let mut checked = Checked::new();
    let element = vec![b'x'; 200];
    checked.push(End::Back, &vec![element.clone(); 100]);
    let before = checked.log.records().len();
    let mut most = 0;
    for nth in 0..4000 {
        let start = checked.log.records().len();
        checked.insert(50, &element);
        if nth % 1000 == 0 {
            checked.check();
            checked.restart(|_| false);
        }
        most = most.max(checked.log.records().len() - start);
    }
    let logged = checked.log.records().len() - before;
    assert!(logged < 4000 * 5, "{logged} records for 4000 insertions");
    assert!(most < 300, "one insertion logged {most} records");
    checked.restart(|at| at % 2 == 0);
    checked.check();
}
