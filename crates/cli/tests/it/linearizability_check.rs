//! Is a history linearizable? The algorithm of Wing and Gong with Lowe's memory, as in porcupine.
//!
//! ```text
//!   client 1   ├── SET x 1 ──┤                      every operation takes effect at one moment (•)
//!   client 2         ├── GET x → 1 ──┤              between its call and its return, and its reply
//!                 •          •                      is what the model says at that moment
//! ```
//!
//! The search takes an operation that was called before any other has returned, asks the model whether it
//! may take effect now, and goes on with the rest; it goes back where that does not work out. What makes
//! it quick enough is that it never looks twice at the same set of operations done in the same state.
//!
//! An operation that got no reply, because the server was killed, may have taken effect or not.
//! It had until [`Operation::to`] to do so, which is when the process was gone: what takes effect later, a
//! write that comes back after a restart for example, is an error, and found as one.
//!
//! There are crates for parts of this; none that knows operations without a reply and remembers states.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;

/// What the operations work on.
pub(crate) trait Model {
    /// All there is to know between two operations.
    type State: Clone + Eq + Hash + Debug;
    /// What a client wants.
    type Call: Debug;
    /// What it was told.
    type Reply: Debug;

    /// The state after a call that was answered like this; nothing if that is not the answer in `state`.
    /// Without a reply every answer is right.
    fn step(
        state: &Self::State,
        call: &Self::Call,
        reply: Option<&Self::Reply>,
    ) -> Option<Self::State>;
}

/// Something that a client did. Times are of one clock, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Operation<C, R> {
    pub(crate) client: usize,
    pub(crate) call: C,
    /// Nothing if it never came.
    pub(crate) reply: Option<R>,
    /// It took effect not before.
    pub(crate) from: u64,
    /// It took effect not after.
    pub(crate) to: u64,
}

/// Operations of a [`Model`].
pub(crate) type History<M> = Vec<Operation<<M as Model>::Call, <M as Model>::Reply>>;

/// Calls and returns in the order of their times, as a list from which operations can be taken and put back.
struct Events {
    /// The operation of each, and whether it is its return.
    events: Vec<(usize, bool)>,
    next: Vec<usize>,
    previous: Vec<usize>,
    call_at: Vec<usize>,
    return_at: Vec<usize>,
}

impl Events {
    fn new<C, R>(history: &[Operation<C, R>]) -> Self {
        let mut times: Vec<(u64, bool, usize)> = Vec::new();
        for (index, operation) in history.iter().enumerate() {
            assert!(operation.from <= operation.to, "an operation returns after its call");
            times.push((operation.from, false, index));
            times.push((operation.to, true, index));
        }
        // At the same time calls are first: that allows more.
        times.sort_unstable();
        // Place 0 is before the first event, so that there is always one before.
        let mut events = vec![(usize::MAX, false)];
        let (mut call_at, mut return_at) = (vec![0; history.len()], vec![0; history.len()]);
        for (_, is_return, index) in times {
            let at = if is_return { &mut return_at } else { &mut call_at };
            at[index] = events.len();
            events.push((index, is_return));
        }
        let next = (1..=events.len()).collect();
        let previous = (0..=events.len()).map(|at| at.saturating_sub(1)).collect();
        Self { events, next, previous, call_at, return_at }
    }

    fn unlink(&mut self, at: usize) {
        let (previous, next) = (self.previous[at], self.next[at]);
        self.next[previous] = next;
        self.previous[next] = previous;
    }

    fn relink(&mut self, at: usize) {
        let (previous, next) = (self.previous[at], self.next[at]);
        self.next[previous] = at;
        self.previous[next] = at;
    }

    fn take(&mut self, operation: usize) {
        self.unlink(self.call_at[operation]);
        self.unlink(self.return_at[operation]);
    }

    /// Takes are undone in the opposite order.
    fn put_back(&mut self, operation: usize) {
        self.relink(self.return_at[operation]);
        self.relink(self.call_at[operation]);
    }
}

/// What an operation may do now: take effect, or, without a reply, have no effect at all.
fn outcomes<M: Model>(state: &M::State, operation: &Operation<M::Call, M::Reply>) -> Vec<M::State> {
    let effect = M::step(state, &operation.call, operation.reply.as_ref());
    let none = operation.reply.is_none().then(|| state.clone());
    let is_same = none.is_some() && none == effect;
    effect.into_iter().chain(none.filter(|_| !is_same)).collect()
}

/// A number for each operation; the set that is done is their sum in the sense of exclusive or. Two sets
/// have the same number once in 2^128.
fn mark(operation: usize) -> u128 {
    let half = |salt: u64| {
        let mut z = (operation as u64).wrapping_add(salt).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        u128::from(z ^ (z >> 31))
    };
    half(1) << 64 | half(0x5851_f42d_4c95_7f2d)
}

/// Finds an order of the operations that the model allows, or says where the search came to its end.
pub(crate) fn check<M: Model>(initial: M::State, history: &History<M>) -> Result<(), String> {
    let mut events = Events::new(history);
    let mut state = initial;
    let mut done = 0_u128;
    let mut seen = HashSet::new();
    // The operations done, each with the state before it and how many of its outcomes were tried.
    let mut path: Vec<(usize, M::State, usize)> = Vec::new();
    let mut best: Option<(Vec<usize>, M::State, usize)> = None;
    let (mut at, mut tried) = (events.next[0], 0);
    while at < events.events.len() {
        let (index, is_return) = events.events[at];
        if is_return {
            // It must have been done by now.
            if best.as_ref().is_none_or(|(order, ..)| order.len() <= path.len()) {
                let order = path.iter().map(|(index, ..)| *index).collect();
                best = Some((order, state.clone(), index));
            }
            let Some((undone, before, outcomes_tried)) = path.pop() else {
                return Err(describe::<M>(history, best));
            };
            events.put_back(undone);
            done ^= mark(undone);
            state = before;
            (at, tried) = (events.call_at[undone], outcomes_tried);
            continue;
        }
        let outcome = outcomes::<M>(&state, &history[index])
            .into_iter()
            .enumerate()
            .skip(tried)
            .find(|(_, next)| seen.insert((done ^ mark(index), next.clone())));
        match outcome {
            Some((number, next)) => {
                events.take(index);
                done ^= mark(index);
                path.push((index, std::mem::replace(&mut state, next), number + 1));
                at = events.next[0];
            }
            None => at = events.next[at],
        }
        tried = 0;
    }
    Ok(())
}

/// The longest order that was found, its last operations, and those that do not fit behind.
fn describe<M: Model>(history: &History<M>, best: Option<(Vec<usize>, M::State, usize)>) -> String {
    const SHOWN: usize = 12;
    let Some((order, state, stuck)) = best else { return "nothing was done".to_owned() };
    let show = |index: usize| {
        let Operation { client, call, reply, from, to } = &history[index];
        format!("    client {client}, {from} to {to} ns: {call:?} -> {reply:?}\n")
    };
    let is_done: HashSet<usize> = order.iter().copied().collect();
    let last: String =
        order.iter().skip(order.len().saturating_sub(SHOWN)).map(|index| show(*index)).collect();
    let open: String = (0..history.len())
        .filter(|index| !is_done.contains(index) && history[*index].from <= history[stuck].to)
        .map(show)
        .take(SHOWN)
        .collect();
    format!(
        "not linearizable: after {} of {} operations, the last of which were\n{last}  the state is\n    \
         {state:?}\n  and none of these could be next:\n{open}  of which the first to return was\n{}",
        order.len(),
        history.len(),
        show(stuck)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kill::Random;

    /// A register, as the papers have it.
    enum Register {}

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Call {
        Write(u8),
        Read,
    }

    impl Model for Register {
        type State = u8;
        type Call = Call;
        type Reply = u8;

        fn step(state: &u8, call: &Call, reply: Option<&u8>) -> Option<u8> {
            match call {
                Call::Write(value) => Some(*value),
                Call::Read => reply.is_none_or(|reply| reply == state).then_some(*state),
            }
        }
    }

    fn write(value: u8, from: u64, to: u64) -> Operation<Call, u8> {
        Operation { client: 0, call: Call::Write(value), reply: Some(0), from, to }
    }

    fn lost(value: u8, from: u64, to: u64) -> Operation<Call, u8> {
        Operation { reply: None, ..write(value, from, to) }
    }

    fn read(value: u8, from: u64, to: u64) -> Operation<Call, u8> {
        Operation { client: 1, call: Call::Read, reply: Some(value), from, to }
    }

    fn is_linearizable(history: &[Operation<Call, u8>]) -> bool {
        check::<Register>(0, &history.to_vec()).is_ok()
    }

    #[test]
    fn known_histories_are_judged_as_known() {
        assert!(is_linearizable(&[]));
        assert!(is_linearizable(&[write(1, 0, 1), read(1, 2, 3)]));
        assert!(!is_linearizable(&[write(1, 0, 1), read(0, 2, 3)]), "a stale read");
        assert!(!is_linearizable(&[read(1, 0, 1), write(1, 2, 3)]), "a read of the future");
        let concurrent = write(1, 0, 10);
        assert!(is_linearizable(&[concurrent.clone(), read(0, 1, 2), read(1, 3, 4)]));
        assert!(
            !is_linearizable(&[concurrent, read(1, 1, 2), read(0, 3, 4)]),
            "a value that was seen and is gone"
        );
        // Two writes and two readers that see them in different orders.
        let writes = [write(1, 0, 100), write(2, 0, 100)];
        let same = [read(1, 10, 11), read(2, 12, 13), read(1, 10, 11), read(2, 12, 13)];
        assert!(is_linearizable(&[&writes[..], &same].concat()));
        let crossed = [read(1, 10, 11), read(2, 12, 13), read(2, 10, 11), read(1, 12, 13)];
        assert!(!is_linearizable(&[&writes[..], &crossed].concat()));
    }

    #[test]
    fn what_was_not_answered_happened_in_time_or_never() {
        assert!(is_linearizable(&[lost(1, 0, 5), read(0, 6, 7), read(0, 8, 9)]));
        assert!(is_linearizable(&[lost(1, 0, 5), read(1, 6, 7), read(1, 8, 9)]));
        assert!(!is_linearizable(&[lost(1, 0, 5), read(0, 6, 7), read(1, 8, 9)]), "too late");
        assert!(!is_linearizable(&[lost(1, 0, 5), read(1, 6, 7), read(0, 8, 9)]), "taken back");
        assert!(!is_linearizable(&[write(1, 0, 1), lost(2, 2, 5), read(3, 6, 7)]));
    }

    /// Tries every order of a short history.
    fn by_force(state: u8, history: &[Operation<Call, u8>]) -> bool {
        let first_return = history.iter().map(|operation| operation.to).min();
        let Some(first_return) = first_return else { return true };
        history.iter().enumerate().any(|(index, operation)| {
            let mut rest = history.to_vec();
            rest.remove(index);
            operation.from <= first_return
                && outcomes::<Register>(&state, operation)
                    .into_iter()
                    .any(|next| by_force(next, &rest))
        })
    }

    #[test]
    fn the_search_agrees_with_trying_everything() {
        let mut random = Random(1);
        let mut good = 0;
        for _ in 0..20_000 {
            let count = 1 + random.below(6);
            let history: Vec<_> = (0..count)
                .map(|_| {
                    let from = random.below(12);
                    let to = from + random.below(6);
                    let value = u8::try_from(random.below(3)).unwrap();
                    match random.below(5) {
                        0 => lost(value, from, to),
                        1 | 2 => write(value, from, to),
                        _ => read(value, from, to),
                    }
                })
                .collect();
            let expected = by_force(0, &history);
            good += u32::from(expected);
            assert_eq!(is_linearizable(&history), expected, "{history:?}");
        }
        assert!((2_000..18_000).contains(&good), "{good} of 20000 are linearizable");
    }

    #[test]
    fn long_histories_with_many_lost_operations_are_quick() {
        let mut random = Random(2);
        let (mut state, mut history) = (0, Vec::new());
        for time in (0..200_000_u64).step_by(10) {
            // Each overlaps with a few before and behind it.
            let (from, to) = (time - time.min(random.below(40)), time + random.below(40));
            let value = u8::try_from(random.below(200)).unwrap();
            match random.below(20) {
                0 => history.push(lost(value, from, to)),
                1..10 => {
                    state = value;
                    history.push(write(value, from, to));
                }
                _ => history.push(read(state, from, to)),
            }
        }
        assert!(is_linearizable(&history));
        let reads = history.iter().rposition(|operation| operation.call == Call::Read);
        history[reads.unwrap()].reply = Some(255);
        assert!(!is_linearizable(&history));
    }

    #[test]
    fn a_failure_says_what_did_not_fit() {
        let history = vec![write(1, 0, 1), read(0, 2, 3)];
        let said = check::<Register>(0, &history).unwrap_err();
        assert!(said.contains("after 1 of 2 operations"), "{said}");
        assert!(said.contains("client 1, 2 to 3 ns: Read -> Some(0)"), "{said}");
    }
}
