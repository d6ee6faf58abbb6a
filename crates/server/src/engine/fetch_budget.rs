//! Which keys are read for which requests, and how much of memory that may take.
//!
//! ```text
//!   request ─► unasked keys ── in turn, a key each ─► asked ── other threads ─► came ─► executed ─► released
//!                                     ▲                 └──────── charged ────────┘
//!                                     └─ as long as all that is charged is within the budget; the oldest
//!                                        request always
//! ```
//!
//! What was read for a request takes memory until it is executed, and before that nothing of it is of use. So
//! no more is asked for than the budget allows, whichever clients want it. The oldest request that still
//! waits is always read for: it ends, is executed, and gives back what it has taken, so none waits for ever.
//! As keys are asked for in turn, one a request, a request for one key does not stand behind all of those
//! of a request for a million.
//!
//! How large a value is that was never in memory is known when it has come: what is asked for is charged
//! with what those that came last had. So is the end of a stream, whose last node may be one entry of any size; but values
//! say nothing of ends, nor ends of values.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use keyspace::{Missing, Need};

use super::ClientKey;

/// So many keys are asked for at a time: more would only wait for the threads that read.
const ASKED_MAX: usize = 1024;

/// So many of them by one request: others' keys do not stand behind more.
const REQUEST_ASKED_MAX: usize = 128;

/// What a value of unknown size is charged with at first, and at least.
const EXPECTED_BYTES: u64 = 256 << 10;
const EXPECTED_BYTES_MIN: u64 = 64;

/// So often a request asks: what has come for it may have gone again before its turn.
const ROUNDS_MAX: u32 = 8;

/// The number of a request that waits for keys, or has: larger ones are younger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RequestId(u64);

/// A request that waits for keys, or has.
#[derive(Debug)]
struct Request {
    client: ClientKey,
    /// What is still to be asked for.
    unasked: Vec<Missing>,
    /// How many keys it waits for that were asked for.
    asked: usize,
    /// What has come and is charged to it.
    bytes: u64,
    /// What has come, and counts against `bytes_max`.
    came_bytes: u64,
    /// More than this it may not bring into memory.
    bytes_max: u64,
    is_too_much: bool,
    /// How often it has asked.
    rounds: u32,
    /// What could not be read, or is not there.
    in_vain: BTreeSet<Missing>,
    /// It is among the turns.
    has_turn: bool,
    /// The number of the names that were asked for.
    names: Option<u64>,
}

impl Request {
    /// What it asks for next; nothing while enough of it is on its way.
    fn next(&mut self) -> Option<Missing> {
        let is_due = self.asked < REQUEST_ASKED_MAX;
        is_due.then(|| self.unasked.pop()).flatten()
    }

    fn is_waiting(&self) -> bool {
        self.asked > 0 || !self.unasked.is_empty()
    }
}

/// How large what is asked for is taken to be, in bytes, where that is not known.
#[derive(Debug, Clone, Copy)]
struct Expected {
    value_bytes: u64,
    end_bytes: u64,
}

impl Default for Expected {
    fn default() -> Self {
        Self { value_bytes: EXPECTED_BYTES, end_bytes: EXPECTED_BYTES }
    }
}

impl Expected {
    const fn of(&self, missing: &Missing) -> u64 {
        match (missing.bytes, missing.need) {
            (0, Need::End) => self.end_bytes,
            (0, _) => self.value_bytes,
            (known, _) => known,
        }
    }

    /// So large it was: as large as this, or a little less than before, the next ones are taken to be.
    fn learn(&mut self, missing: &Missing, bytes: u64) {
        let expected = match missing.need {
            _ if missing.bytes > 0 || bytes == 0 => return,
            Need::End => &mut self.end_bytes,
            Need::Name | Need::Value => &mut self.value_bytes,
        };
        *expected = bytes.max(*expected - *expected / 8).max(EXPECTED_BYTES_MIN);
    }
}

/// A key that was asked for.
#[derive(Debug, Default)]
struct Asked {
    expected_bytes: u64,
    requests: Vec<RequestId>,
}

/// See the file's top.
#[derive(Debug, Default)]
pub(crate) struct FetchBudget {
    requests: BTreeMap<RequestId, Request>,
    /// Those that still wait, the oldest first.
    waiting: BTreeSet<RequestId>,
    /// Those that have something to ask for, in the order of their turns.
    turns: VecDeque<RequestId>,
    asked: BTreeMap<Missing, Asked>,
    asked_bytes: u64,
    /// Names of keys that were asked for, which take little.
    names: BTreeMap<u64, RequestId>,
    /// What has come for requests that were not executed yet.
    came_bytes: u64,
    expected: Expected,
    last_id: u64,
}

impl FetchBudget {
    /// How much was asked for and has not come yet.
    pub(crate) fn asked_count(&self) -> usize {
        self.asked.len() + self.names.len()
    }

    /// How many clients wait for keys.
    pub(crate) fn waiting_count(&self) -> usize {
        self.waiting.len()
    }

    /// What is charged.
    pub(crate) fn bytes(&self) -> u64 {
        self.asked_bytes + self.came_bytes
    }

    /// Nothing that was asked for comes any more, and no request waits.
    pub(crate) fn clear(&mut self) {
        let Self { expected, last_id, .. } = *self;
        *self = Self { expected, last_id, ..Self::default() };
    }

    /// A request waits for `keys`, which may bring up to `bytes_max` into memory.
    pub(crate) fn enter(
        &mut self,
        client: ClientKey,
        mut keys: Vec<Missing>,
        bytes_max: u64,
    ) -> RequestId {
        self.last_id += 1;
        let id = RequestId(self.last_id);
        keys.reverse();
        let request = Request {
            client,
            unasked: keys,
            asked: 0,
            bytes: 0,
            came_bytes: 0,
            bytes_max,
            is_too_much: false,
            rounds: 1,
            in_vain: BTreeSet::new(),
            has_turn: true,
            names: None,
        };
        self.requests.insert(id, request);
        self.waiting.insert(id);
        self.turns.push_back(id);
        id
    }

    /// Whether a request for which nothing is to come any more may ask for what it lacks once again.
    pub(crate) fn may_ask_again(&self, id: RequestId) -> bool {
        self.requests.get(&id).is_some_and(|request| request.rounds < ROUNDS_MAX)
    }

    /// A request waits for those of `keys` that have come for it and have gone again, or that it did not know of. It
    /// is charged no longer with what has gone.
    pub(crate) fn enter_again(&mut self, id: RequestId, mut keys: Vec<Missing>) {
        let Some(request) = self.requests.get_mut(&id) else { return };
        keys.retain(|missing| !request.in_vain.contains(missing));
        keys.reverse();
        request.rounds += 1;
        request.unasked = keys;
        let gone: u64 = request.unasked.iter().map(|it| self.expected.of(it)).sum();
        let charged = gone.min(request.bytes);
        self.came_bytes -= charged;
        request.bytes -= charged;
        request.came_bytes = request.came_bytes.saturating_sub(gone);
        self.waiting.insert(id);
        if !std::mem::replace(&mut request.has_turn, true) {
            self.turns.push_back(id);
        }
    }

    /// Whether a request needs more than it may bring into memory.
    pub(crate) fn is_too_much(&self, id: RequestId) -> bool {
        self.requests.get(&id).is_some_and(|request| request.is_too_much)
    }

    /// Whether something of a request is still to come.
    pub(crate) fn is_waiting(&self, id: RequestId) -> bool {
        self.waiting.contains(&id)
    }

    /// A request was executed, or its client is gone. Returns the number of its names, which are not wanted
    /// any more.
    pub(crate) fn release(&mut self, id: RequestId) -> Option<u64> {
        let request = self.requests.remove(&id)?;
        self.came_bytes -= request.bytes;
        self.waiting.remove(&id);
        request.names
    }

    /// What is to be asked for next, within the budget, and for which request; `None` if nothing is.
    pub(crate) fn next(&mut self, budget_bytes: u64) -> Option<(RequestId, Missing)> {
        if self.asked.len() >= ASKED_MAX {
            return None;
        }
        if self.bytes() < budget_bytes {
            while let Some(id) = self.turns.pop_front() {
                let Some(request) = self.requests.get_mut(&id) else { continue };
                let next = request.next();
                request.has_turn = next.is_some() && !request.unasked.is_empty();
                if request.has_turn {
                    self.turns.push_back(id);
                }
                if let Some(missing) = next {
                    return Some((id, missing));
                }
            }
            return None;
        }
        let oldest = *self.waiting.first()?;
        let missing = self.requests.get_mut(&oldest)?.next()?;
        Some((oldest, missing))
    }

    /// Whether a key was asked for.
    pub(crate) fn is_asked(&self, missing: &Missing) -> bool {
        self.asked.contains_key(missing)
    }

    /// Whether something may be asked for that no request waits for yet.
    pub(crate) fn has_room_ahead(&self, budget_bytes: u64) -> bool {
        self.asked.len() < ASKED_MAX / 2 && self.bytes() < budget_bytes / 2
    }

    /// A key was asked for, now or before, by a request or ahead of any.
    pub(crate) fn note_asked(&mut self, missing: Missing, id: Option<RequestId>) {
        let expected_bytes = self.expected.of(&missing);
        let asked = self.asked.entry(missing).or_insert_with(|| {
            self.asked_bytes += expected_bytes;
            Asked { expected_bytes, requests: Vec::new() }
        });
        if let Some(id) = id {
            asked.requests.push(id);
            self.requests.entry(id).and_modify(|request| request.asked += 1);
        }
    }

    /// Names with this number were asked for by a request.
    pub(crate) fn note_names(&mut self, number: u64, id: RequestId) {
        self.names.insert(number, id);
        self.requests.entry(id).and_modify(|request| {
            request.asked += 1;
            request.names = Some(number);
        });
    }

    /// Names have come, or cannot. Returns the request that waits for them, if it does still.
    pub(crate) fn named(&mut self, number: u64) -> Option<RequestId> {
        let id = self.names.remove(&number)?;
        self.requests.get_mut(&id)?.asked -= 1;
        Some(id)
    }

    /// A key has come, with so many bytes, or cannot. Calls `ready` with each client whose request waits for
    /// nothing any more.
    pub(crate) fn came(
        &mut self,
        missing: &Missing,
        bytes: u64,
        mut ready: impl FnMut(ClientKey, RequestId),
    ) {
        let Some(asked) = self.asked.remove(missing) else { return };
        self.asked_bytes -= asked.expected_bytes;
        self.expected.learn(missing, bytes);
        // It is there once, however many have waited for it.
        let mut charged_bytes = bytes;
        for id in asked.requests {
            let Some(request) = self.requests.get_mut(&id) else { continue };
            request.asked -= 1;
            self.came_bytes += charged_bytes;
            request.bytes += std::mem::take(&mut charged_bytes);
            request.came_bytes += bytes;
            if bytes == 0 {
                request.in_vain.insert(missing.clone());
            }
            if request.came_bytes > request.bytes_max {
                request.is_too_much = true;
                request.unasked.clear();
            }
            if !request.has_turn && !request.unasked.is_empty() {
                request.has_turn = true;
                self.turns.push_back(id);
            }
            if let Some(client) = self.end_if_over(id) {
                ready(client, id);
            }
        }
    }

    /// Ends the wait of a request for which there is nothing to wait. Returns its client if it has ended.
    pub(crate) fn end_if_over(&mut self, id: RequestId) -> Option<ClientKey> {
        let request = self.requests.get(&id)?;
        let is_over = !request.is_waiting() && self.waiting.remove(&id);
        is_over.then_some(request.client)
    }
}

#[cfg(test)]
mod tests {
    use base::{DbId, RecordAddr, SegmentId};
    use keyspace::Need;

    use super::*;
    use crate::engine::client::Client;
    use crate::engine::slab::Slab;

    const BUDGET_BYTES: u64 = 1000;

    fn key(number: u32, bytes: u64) -> Missing {
        let addr = (bytes > 0).then(|| RecordAddr::new(SegmentId(1), number));
        let key = number.to_le_bytes().into();
        Missing { db: DbId(0), key, addr, rest_of: None, bytes, need: Need::Value }
    }

    struct World {
        fetches: FetchBudget,
        client: ClientKey,
        ready: Vec<RequestId>,
    }

    impl World {
        fn new() -> Self {
            let client = Slab::default().insert(Client::default());
            Self { fetches: FetchBudget::default(), client, ready: Vec::new() }
        }

        fn enter(&mut self, keys: impl IntoIterator<Item = Missing>) -> RequestId {
            self.fetches.enter(self.client, keys.into_iter().collect(), 50_000)
        }

        /// Asks for all that may be asked for.
        fn ask(&mut self) -> Vec<RequestId> {
            let mut turns = Vec::new();
            while let Some((id, missing)) = self.fetches.next(BUDGET_BYTES) {
                turns.push(id);
                self.fetches.note_asked(missing, Some(id));
            }
            turns
        }

        fn come(&mut self, key: &Missing, bytes: u64) {
            self.fetches.came(key, bytes, |_, id| self.ready.push(id));
        }
    }

    #[test]
    fn a_request_for_one_key_does_not_wait_for_those_of_a_request_for_many() {
        let mut world = World::new();
        let many = world.enter((0..10_000).map(|number| key(number, 1)));
        assert_eq!(world.ask(), vec![many; REQUEST_ASKED_MAX], "the rest of it must wait");
        let one = world.enter([key(20_000, 1)]);
        assert_eq!(world.ask(), [one]);
        world.come(&key(0, 1), 1);
        world.come(&key(1, 1), 1);
        assert_eq!(world.ask(), [many, many]);
        world.come(&key(20_000, 1), 1);
        assert_eq!(world.ready, [one]);
        // Many of them come to an end, too.
        let more: Vec<_> = (0..20)
            .map(|number| world.enter((0..400).map(|it| key(30_000 + number * 1000 + it, 1))))
            .collect();
        let mut asked = world.ask().len();
        assert!(asked <= ASKED_MAX);
        while let Some((missing, _)) = world.fetches.asked.first_key_value() {
            let missing = missing.clone();
            world.come(&missing, 1);
            asked += world.ask().len();
        }
        assert_eq!(asked, 10_000 - REQUEST_ASKED_MAX - 2 + 20 * 400);
        assert_eq!(world.ready.len(), 2 + more.len());
    }

    #[test]
    fn beyond_the_budget_the_oldest_request_alone_is_read_for() {
        let mut world = World::new();
        let first = world.enter((0..4).map(|number| key(number, 400)));
        let second = world.enter((10..12).map(|number| key(number, 400)));
        let third = world.enter([key(20, 400)]);
        // The budget is passed by less than one value, and then by what the oldest needs.
        assert_eq!(world.ask(), [first, second, third, first, first, first]);
        assert_eq!(world.fetches.bytes(), 6 * 400);
        (0..4).for_each(|number| world.come(&key(number, 400), 400));
        world.come(&key(10, 400), 400);
        world.come(&key(20, 400), 400);
        assert_eq!(world.ready, [first, third]);
        // What has come is charged until it is executed.
        assert_eq!(world.fetches.bytes(), 6 * 400);
        assert_eq!(world.ask(), [second], "it is the oldest that waits");
        world.fetches.release(first);
        world.fetches.release(third);
        world.come(&key(11, 400), 400);
        world.fetches.release(second);
        assert_eq!(world.fetches.bytes(), 0);
        assert_eq!(world.ready, [first, third, second]);
    }

    #[test]
    fn what_is_not_known_to_be_large_is_charged_when_it_has_come() {
        let mut world = World::new();
        let first = world.enter((0..20).map(|number| key(number, 0)));
        let second = world.enter((20..40).map(|number| key(number, 0)));
        world.fetches.expected.value_bytes = 100;
        assert_eq!(world.ask().len(), 20 + 5, "the oldest, and half of the budget");
        world.come(&key(0, 0), 900);
        world.come(&key(20, 0), 10);
        assert_eq!(world.ask(), [], "one was large, and the oldest has all that it needs");
        assert_eq!(world.fetches.expected.value_bytes, 900 - 900 / 8);
        world.fetches.release(first);
        world.come(&key(21, 0), 10);
        (22..25).for_each(|number| world.come(&key(number, 0), 10));
        (1..20).for_each(|number| world.come(&key(number, 0), 10));
        assert!(world.ask().iter().all(|id| *id == second));
    }

    #[test]
    fn a_request_that_turns_out_to_need_too_much_ends() {
        let mut world = World::new();
        let id = world.enter((0..1000).map(|number| key(number, 0)));
        let asked = world.ask().len();
        assert!(asked < 1000);
        for number in 0..u32::try_from(asked).unwrap() {
            world.come(&key(number, 0), 2000);
        }
        assert!(world.fetches.is_too_much(id));
        assert_eq!((world.ready.clone(), world.ask()), (vec![id], vec![]));
        world.fetches.release(id);
        assert!(!world.fetches.is_too_much(id));
        assert_eq!(world.fetches.bytes(), 0);
    }

    #[test]
    fn what_has_gone_again_is_asked_for_again_but_not_what_was_not_there() {
        let mut world = World::new();
        let [gone, stays, absent] = [key(1, 700), key(3, 20), key(2, 0)];
        let id = world.enter([gone.clone(), stays.clone(), absent.clone()]);
        world.ask();
        world.come(&gone, 700);
        world.come(&stays, 20);
        world.come(&absent, 0);
        assert_eq!(world.ready, [id]);
        for round in 2..=ROUNDS_MAX {
            assert!(world.fetches.may_ask_again(id), "{round}");
            world.fetches.enter_again(id, vec![gone.clone(), absent.clone()]);
            assert!(world.fetches.is_waiting(id) && world.fetches.bytes() == 20);
            assert_eq!(world.ask(), [id], "{round}");
            world.come(&gone, 700);
            assert_eq!(world.fetches.bytes(), 720);
            assert!(!world.fetches.is_waiting(id) && !world.fetches.is_too_much(id), "{round}");
        }
        assert!(!world.fetches.may_ask_again(id));
        world.fetches.release(id);
        assert_eq!(world.fetches.bytes(), 0);
    }

    #[test]
    fn nothing_is_waited_for_where_all_was_in_vain() {
        let mut world = World::new();
        let id = world.enter([key(2, 0)]);
        world.ask();
        world.come(&key(2, 0), 0);
        world.fetches.enter_again(id, vec![key(2, 0)]);
        assert_eq!(world.ask(), []);
        world.fetches.end_if_over(id);
        assert!(!world.fetches.is_waiting(id));
    }

    #[test]
    fn what_several_wait_for_is_charged_once_and_ends_all_their_waits() {
        let mut world = World::new();
        let ids = [1, 2, 3].map(|_| world.enter([key(7, 100)]));
        assert_eq!(world.ask(), ids);
        assert_eq!((world.fetches.bytes(), world.fetches.asked_count()), (100, 1));
        // A client that is gone waits no more.
        world.fetches.release(ids[1]);
        world.come(&key(7, 100), 100);
        assert_eq!(world.ready, [ids[0], ids[2]]);
        assert_eq!(world.fetches.bytes(), 100);
        world.fetches.release(ids[0]);
        world.fetches.release(ids[2]);
        assert_eq!(world.fetches.bytes(), 0);
    }

    #[test]
    fn what_ends_of_streams_take_is_learnt_apart_from_what_values_take() {
        const BUDGET: u64 = 10 << 20;
        /// How many of a hundred are asked for within the budget, behind one that waits.
        fn asked(world: &mut World, need: Need) -> usize {
            let wanted = (0..100).map(|number| Missing { need, ..key(number, 0) });
            let requests = [world.enter([key(5000, 1)]), world.enter(wanted)];
            let mut count = 0;
            while let Some((id, missing)) = world.fetches.next(BUDGET) {
                world.fetches.note_asked(missing, Some(id));
                count += 1;
            }
            requests.into_iter().for_each(|id| _ = world.fetches.release(id));
            let all: Vec<_> = world.fetches.asked.keys().cloned().collect();
            all.iter().for_each(|missing| world.come(missing, 0));
            count - 1
        }
        let end_comes = |world: &mut World, bytes| {
            let end = Missing { need: Need::End, ..key(1000, 0) };
            let id = world.enter([end.clone()]);
            assert!(world.fetches.next(BUDGET).is_some());
            world.fetches.note_asked(end.clone(), Some(id));
            world.come(&end, bytes);
            world.fetches.release(id);
        };
        let mut world = World::new();
        assert_eq!(asked(&mut world, Need::End), 40, "of a quarter of a megabyte");
        end_comes(&mut world, 50 << 20);
        assert_eq!(asked(&mut world, Need::End), 1, "others may be as large");
        assert_eq!(asked(&mut world, Need::Value), 40);
        (0..100).for_each(|_| end_comes(&mut world, 300));
        assert_eq!(asked(&mut world, Need::End), 100);
        assert_eq!(asked(&mut world, Need::Value), 40, "small ends say nothing of values");
    }
}
