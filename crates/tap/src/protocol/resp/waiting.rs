//! Unanswered requests, and the replies they expect.

use std::collections::VecDeque;

use super::meaning::{CONFIRMATIONS, Setting};
use super::replies::Reply;
use crate::entry::Outcome;

/// What the server will reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Expected {
    /// One reply.
    Reply,
    /// One reply, to an EXEC: null if it was not executed.
    Execution,
    /// CLIENT REPLY has disabled replies.
    Nothing,
    /// Confirmations of one kind in [`CONFIRMATIONS`], one per channel.
    Confirmations { kind: usize, left: u32 },
}

/// An unanswered request.
#[derive(Clone, Copy, Debug)]
struct Unanswered {
    /// `None` if part of it is missing, so that it was not reported.
    number: Option<u64>,
    /// The number of consecutive requests with the same expectation; above one only without
    /// answers.
    count: u64,
    expected: Expected,
    /// Whether the first of `changes` belongs to it.
    has_change: bool,
}

/// The effect of a request on the connection once the server accepts it.
#[derive(Debug)]
enum Change {
    Set(Setting, Vec<u8>),
    Reset,
}

/// The pushes by which the server delivers published messages.
const MESSAGES: [&[u8]; 3] = [b"message", b"pmessage", b"smessage"];

/// The unanswered requests, oldest first.
#[derive(Debug)]
pub(super) struct Waiting {
    queue: VecDeque<Unanswered>,
    changes: VecDeque<Change>,
    /// The settings in force, oldest first.
    settings: Vec<(Setting, Vec<u8>)>,
    /// The number of requests reported.
    told: u64,
    /// The channels and patterns that the client has subscribed to.
    subscriptions: i64,
    /// Whether further confirmations may follow: UNSUBSCRIBE without channels.
    has_trailing: bool,
    is_monitor: bool,
}

impl Waiting {
    pub(super) fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            changes: VecDeque::new(),
            settings: Vec::new(),
            told: 0,
            subscriptions: 0,
            has_trailing: false,
            is_monitor: false,
        }
    }

    /// Takes the number of the next reported request.
    pub(super) fn number(&mut self) -> u64 {
        self.told += 1;
        self.told - 1
    }

    pub(super) fn push(&mut self, number: Option<u64>, expected: Expected) {
        if let (Some(last), Some(number), Expected::Nothing) =
            (self.queue.back_mut(), number, expected)
            && last.expected == expected
            && last.number.is_some_and(|first| first + last.count == number)
            && !last.has_change
        {
            last.count += 1;
            return;
        }
        self.queue.push_back(Unanswered { number, count: 1, expected, has_change: false });
    }

    /// Notes that the last pushed request sets `setting` by `payload`.
    pub(super) fn sets(&mut self, setting: Setting, payload: Vec<u8>) {
        self.changes(Change::Set(setting, payload));
    }

    /// Notes that the last pushed request undoes all settings.
    pub(super) fn resets(&mut self) {
        self.changes(Change::Reset);
    }

    fn changes(&mut self, change: Change) {
        let Some(last) = self.queue.back_mut() else { return };
        if last.count > 1 {
            // It belongs to the last of several consecutive requests without answers.
            last.count -= 1;
            let number = last.number.map(|first| first + last.count);
            let expected = last.expected;
            self.queue.push_back(Unanswered { number, count: 1, expected, has_change: true });
        } else {
            last.has_change = true;
        }
        self.changes.push_back(change);
    }

    /// Notes that MONITOR lines may arrive from here on.
    pub(super) fn monitors(&mut self) {
        self.is_monitor = true;
    }

    /// The requests in force, oldest first.
    pub(super) fn settings(&self) -> Vec<Vec<u8>> {
        self.settings.iter().map(|(_, payload)| payload.clone()).collect()
    }

    /// Handles a reply; false if it answers no request.
    pub(super) fn answer(&mut self, reply: &Reply, told: &mut dyn FnMut(u64, Outcome)) -> bool {
        let may_be_push = match reply.kind {
            b'>' => true,
            b'*' => {
                self.subscriptions > 0
                    || self.has_trailing
                    || matches!(self.next_expected(), Some(Expected::Confirmations { .. }))
            }
            b'+' if self.is_monitor => {
                return is_monitor_line(reply.head()) || self.pop(reply, told);
            }
            _ => false,
        };
        if may_be_push {
            let name = reply.head();
            if let Some(kind) = CONFIRMATIONS.iter().position(|known| *known == name) {
                self.confirm(kind, reply, told);
                return true;
            }
            if reply.kind == b'>' || MESSAGES.contains(&name) {
                return true;
            }
        }
        self.has_trailing = false;
        self.pop(reply, told)
    }

    /// The next expected reply, if any.
    fn next_expected(&self) -> Option<Expected> {
        let is_answered = |waiting: &&Unanswered| waiting.expected != Expected::Nothing;
        self.queue.iter().find(is_answered).map(|waiting| waiting.expected)
    }

    fn confirm(&mut self, kind: usize, reply: &Reply, told: &mut dyn FnMut(u64, Outcome)) {
        self.subscriptions = reply.third;
        let expected = self.next_expected();
        if !matches!(expected, Some(Expected::Confirmations { kind: next, .. }) if next == kind) {
            return;
        }
        self.pop_silent(told);
        let Some(front) = self.queue.front_mut() else { return };
        match &mut front.expected {
            Expected::Confirmations { left, .. } if *left > 1 => *left -= 1,
            _ => {
                self.has_trailing = true;
                self.pop_front(Outcome::Ok, true, told);
            }
        }
    }

    /// Completes the oldest request.
    fn pop(&mut self, reply: &Reply, told: &mut dyn FnMut(u64, Outcome)) -> bool {
        self.pop_silent(told);
        let Some(front) = self.queue.front() else {
            // The server gives the reason for its hangup.
            return reply.is_error();
        };
        let is_refused = front.expected == Expected::Execution && reply.is_null();
        let outcome = if is_refused { Outcome::Error } else { reply.outcome() };
        self.pop_front(outcome, outcome == Outcome::Ok, told);
        true
    }

    /// Requests before an answered one are complete too.
    fn pop_silent(&mut self, told: &mut dyn FnMut(u64, Outcome)) {
        while self.queue.front().is_some_and(|front| front.expected == Expected::Nothing) {
            self.pop_front(Outcome::Ok, true, told);
        }
    }

    fn pop_front(&mut self, outcome: Outcome, applies: bool, told: &mut dyn FnMut(u64, Outcome)) {
        let Some(front) = self.queue.pop_front() else { return };
        if front.has_change
            && let Some(change) = self.changes.pop_front()
            && applies
        {
            match change {
                Change::Reset => {
                    self.settings.clear();
                    self.subscriptions = 0;
                    self.is_monitor = false;
                }
                Change::Set(setting, payload) => {
                    self.settings.retain(|(known, _)| *known != setting);
                    self.settings.push((setting, payload));
                }
            }
        }
        if let Some(first) = front.number {
            (first..first + front.count).for_each(|number| told(number, outcome));
        }
    }

    /// Completes all waiting requests with an unknown outcome.
    pub(super) fn answer_all(&mut self, told: &mut dyn FnMut(u64, Outcome)) {
        while !self.queue.is_empty() {
            self.pop_front(Outcome::Ok, true, told);
        }
        self.has_trailing = false;
    }
}

/// Whether a simple string is one of MONITOR's: `1700000000.123456 [0 127.0.0.1:1] "get" "k"`.
fn is_monitor_line(head: &[u8]) -> bool {
    let Some(dot) = head.iter().position(|&byte| byte == b'.') else { return false };
    let (seconds, rest) = head.split_at(dot);
    seconds.len() >= 9
        && seconds.iter().all(u8::is_ascii_digit)
        && rest.len() > 8
        && rest[1..7].iter().all(u8::is_ascii_digit)
        && &rest[7..9] == b" ["
}
