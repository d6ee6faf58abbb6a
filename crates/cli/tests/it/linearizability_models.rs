//! What the server promises, as models for [`crate::linearizability_check`]: one key, and many accounts.
//!
//! A reply is compared with what the model would have said; a transaction is one call. A transaction that
//! WATCH has called off changes nothing, and what it read before counts as a read.

use crate::linearizability_check::Model;
use std::collections::VecDeque;

/// One key, of whichever type its first write makes it. Each client writes values of its own.
pub(crate) enum Key {}

/// What a key holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Value {
    #[default]
    Missing,
    Text(String),
    List(VecDeque<String>),
}

/// A command on one key.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum KeyCall {
    Get,
    Set(String),
    Append(String),
    Incr,
    Del,
    /// WATCH, GET, and if it was the first of these (empty for a missing key), in MULTI, SET to the second.
    Cas(String, String),
    LPush(String),
    RPop,
    LRange,
}

/// The reply: a text, empty for null, or the elements of a list with commas between.
pub(crate) type KeyReply = String;

impl Model for Key {
    type State = Value;
    type Call = KeyCall;
    type Reply = KeyReply;

    fn step(state: &Value, call: &KeyCall, reply: Option<&KeyReply>) -> Option<Value> {
        let (next, said) = answer(state, call)?;
        reply.is_none_or(|reply| *reply == said).then_some(next)
    }
}

/// The state after a command, and its reply; nothing if the command is not for such a value.
fn answer(state: &Value, call: &KeyCall) -> Option<(Value, String)> {
    let text = match state {
        Value::Missing => String::new(),
        Value::Text(text) => text.clone(),
        Value::List(_) => return list_answer(state, call),
    };
    Some(match call {
        KeyCall::Get => (state.clone(), text),
        KeyCall::Set(value) => (Value::Text(value.clone()), "OK".to_owned()),
        KeyCall::Append(more) => {
            let text = text + more;
            let length = text.len().to_string();
            (Value::Text(text), length)
        }
        KeyCall::Incr => {
            let number = if text.is_empty() { 0 } else { text.parse::<i64>().ok()? } + 1;
            (Value::Text(number.to_string()), number.to_string())
        }
        KeyCall::Del => (Value::Missing, u8::from(*state != Value::Missing).to_string()),
        KeyCall::Cas(old, new) => {
            if text == *old {
                (Value::Text(new.clone()), "OK".to_owned())
            } else {
                // Nothing was changed; an OK would be wrong.
                (state.clone(), String::new())
            }
        }
        KeyCall::LPush(_) | KeyCall::RPop | KeyCall::LRange => return list_answer(state, call),
    })
}

fn list_answer(state: &Value, call: &KeyCall) -> Option<(Value, String)> {
    let mut list = match state {
        Value::Missing => VecDeque::new(),
        Value::List(list) => list.clone(),
        Value::Text(_) => return None,
    };
    let said = match call {
        KeyCall::LPush(element) => {
            list.push_front(element.clone());
            list.len().to_string()
        }
        KeyCall::RPop => list.pop_back().unwrap_or_default(),
        KeyCall::LRange => Vec::from(list.clone()).join(","),
        KeyCall::Del => {
            let was_there = u8::from(!list.is_empty());
            list.clear();
            was_there.to_string()
        }
        _ => return None,
    };
    let next = if list.is_empty() { Value::Missing } else { Value::List(list) };
    Some((next, said))
}

/// How many accounts a [`Bank`] has.
pub(crate) const ACCOUNTS: usize = 5;

/// What each account has before the first transfer.
pub(crate) const BALANCE: i64 = 100;

/// Accounts between which transactions transfer.
pub(crate) enum Bank {}

/// A transaction.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum BankCall {
    /// MULTI, DECRBY of the first account, INCRBY of the second, EXEC.
    Transfer { from: usize, to: usize, amount: i64 },
    /// WATCH and GET of both accounts, and when they held `seen`, SET of both to `new` in MULTI.
    Move { from: usize, to: usize, seen: (i64, i64), new: (i64, i64) },
    /// MGET of all accounts.
    Audit,
    /// GET of two accounts in MULTI.
    Look { one: usize, other: usize },
}

/// The balances that the reply holds; those after the change of a [`BankCall::Transfer`], and none for a
/// [`BankCall::Move`] that was carried out.
pub(crate) type BankReply = Vec<i64>;

impl Model for Bank {
    type State = [i64; ACCOUNTS];
    type Call = BankCall;
    type Reply = BankReply;

    fn step(
        state: &Self::State,
        call: &BankCall,
        reply: Option<&BankReply>,
    ) -> Option<Self::State> {
        let mut next = *state;
        let said = match *call {
            BankCall::Transfer { from, to, amount } => {
                next[from] -= amount;
                next[to] += amount;
                vec![next[from], next[to]]
            }
            BankCall::Move { from, to, seen, new } => {
                if (state[from], state[to]) != seen {
                    return reply.is_none().then_some(*state);
                }
                (next[from], next[to]) = new;
                Vec::new()
            }
            BankCall::Audit => state.to_vec(),
            BankCall::Look { one, other } => vec![state[one], state[other]],
        };
        reply.is_none_or(|reply| *reply == said).then_some(next)
    }
}

/// A few lists to which transactions append, and which others read whole: every append shows in every
/// later read, so there is nothing to hide behind.
pub(crate) enum Appends {}

/// What a transaction does with a list.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Step {
    /// RPUSH.
    Append(usize, u32),
    /// LRANGE 0 -1.
    Read(usize),
}

/// How many lists there are.
pub(crate) const LISTS: usize = 3;

impl Model for Appends {
    /// What each list has; elements are few, because lists are deleted between rounds.
    type State = [Vec<u32>; LISTS];
    /// The steps of a MULTI, or nothing for DEL of all lists.
    type Call = Vec<Step>;
    /// The elements read, or the length after an append, of each step.
    type Reply = Vec<Vec<u32>>;

    fn step(
        state: &Self::State,
        call: &Vec<Step>,
        reply: Option<&Self::Reply>,
    ) -> Option<Self::State> {
        if call.is_empty() {
            return Some(Self::State::default());
        }
        let mut next = state.clone();
        for (at, step) in call.iter().enumerate() {
            let said = match *step {
                Step::Append(list, value) => {
                    next[list].push(value);
                    vec![u32::try_from(next[list].len()).unwrap()]
                }
                Step::Read(list) => next[list].clone(),
            };
            if reply.is_some_and(|reply| reply.get(at) != Some(&said)) {
                return None;
            }
        }
        Some(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::linearizability_check::{History, Operation, check};

    fn at<C, R>(call: C, reply: Option<R>, from: u64, to: u64) -> Operation<C, R> {
        Operation { client: 0, call, reply, from, to }
    }

    fn key(call: KeyCall, reply: &str, from: u64, to: u64) -> Operation<KeyCall, String> {
        at(call, Some(reply.to_owned()), from, to)
    }

    fn is_good_key(history: &History<Key>) -> bool {
        check::<Key>(Value::Missing, history).is_ok()
    }

    #[test]
    fn a_key_is_what_redis_makes_of_it() {
        let set = |value: &str, from, to| key(KeyCall::Set(value.to_owned()), "OK", from, to);
        let cas = |old: &str, new: &str, reply, from, to| {
            key(KeyCall::Cas(old.to_owned(), new.to_owned()), reply, from, to)
        };
        assert!(is_good_key(&vec![
            set("a", 0, 1),
            cas("a", "b", "OK", 2, 3),
            key(KeyCall::Get, "b", 4, 5)
        ]));
        assert!(
            !is_good_key(&vec![set("a", 0, 1), cas("x", "b", "OK", 2, 3)]),
            "compared with another"
        );
        // Of two concurrent exchanges of the same value one may win.
        assert!(!is_good_key(&vec![
            set("a", 0, 1),
            cas("a", "b", "OK", 2, 9),
            cas("a", "c", "OK", 2, 9)
        ]));
        let incr = |reply, from, to| key(KeyCall::Incr, reply, from, to);
        assert!(is_good_key(&vec![
            incr("1", 0, 9),
            incr("2", 0, 9),
            key(KeyCall::Del, "1", 10, 11)
        ]));
        assert!(!is_good_key(&vec![incr("1", 0, 9), incr("1", 0, 9)]), "a lost update");
        let push = |element: &str, reply, from, to| {
            key(KeyCall::LPush(element.to_owned()), reply, from, to)
        };
        let pop = |reply, from, to| key(KeyCall::RPop, reply, from, to);
        assert!(is_good_key(&vec![
            push("a", "1", 0, 1),
            push("b", "2", 2, 3),
            pop("a", 4, 5),
            pop("b", 6, 7)
        ]));
        assert!(
            !is_good_key(&vec![push("a", "1", 0, 1), pop("a", 4, 9), pop("a", 4, 9)]),
            "popped twice"
        );
        assert!(!is_good_key(&vec![push("a", "1", 0, 1), push("b", "1", 2, 3)]), "a lost element");
    }

    #[test]
    fn a_transfer_is_whole() {
        let transfer = BankCall::Transfer { from: 0, to: 1, amount: 10 };
        let audit = |reply: [i64; 5], from, to| at(BankCall::Audit, Some(reply.to_vec()), from, to);
        let good = |history: &History<Bank>| check::<Bank>([BALANCE; ACCOUNTS], history).is_ok();
        let done = at(transfer.clone(), Some(vec![90, 110]), 0, 10);
        let lost = at(transfer, None, 0, 10);
        let (before, after) = ([100; 5], [90, 110, 100, 100, 100]);
        assert!(good(&vec![done.clone(), audit(before, 1, 2), audit(after, 3, 4)]));
        assert!(!good(&vec![done.clone(), audit([90, 100, 100, 100, 100], 1, 2)]), "half of it");
        assert!(!good(&vec![done, audit(before, 11, 12)]), "acknowledged and lost");
        assert!(good(&vec![lost.clone(), audit(before, 11, 12)]));
        assert!(good(&vec![lost.clone(), audit(after, 11, 12)]));
        assert!(!good(&vec![lost.clone(), audit([90, 100, 100, 100, 100], 11, 12)]), "half of it");
        assert!(!good(&vec![lost, audit(before, 11, 12), audit(after, 13, 14)]), "after the crash");
        let look = at(BankCall::Look { one: 0, other: 2 }, Some(vec![100, 101]), 0, 1);
        assert!(!good(&vec![look]));
    }

    #[test]
    fn what_was_appended_is_read_by_all_in_one_order() {
        let good =
            |history: &History<Appends>| check::<Appends>(Default::default(), history).is_ok();
        let append = |value, reply, from, to| {
            at(
                vec![Step::Append(0, value), Step::Read(1)],
                Some(vec![vec![reply], vec![]]),
                from,
                to,
            )
        };
        let read = |elements: &[u32], from, to| {
            at(vec![Step::Read(0)], Some(vec![elements.to_vec()]), from, to)
        };
        let both = [append(1, 1, 0, 9), append(2, 2, 0, 9)];
        assert!(good(&[&both[..], &[read(&[1, 2], 10, 11)]].concat()));
        assert!(!good(&[&both[..], &[read(&[2, 1], 10, 11)]].concat()), "another order");
        assert!(!good(&[&both[..], &[read(&[1], 10, 11)]].concat()), "one is lost");
    }
}
