//! A listener that records, for tests.

use super::{Listener, Side};
use crate::entry::{Class, Outcome, Time};

/// A call of the listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Request { class: Class, payload: Vec<u8>, offset: u64 },
    Response(u64, Outcome),
    Unintelligible(Side, String),
    Encrypted,
}

impl Heard {
    pub(super) fn request(class: Class, payload: &[u8], offset: u64) -> Self {
        Self::Request { class, payload: payload.to_vec(), offset }
    }
}

/// All calls, in order.
#[derive(Debug, Default)]
pub(super) struct Recorder {
    pub(super) heard: Vec<Heard>,
    /// The connection's requests at the end.
    pub(super) settings: Vec<Vec<u8>>,
}

impl Recorder {
    pub(super) fn classes(&self) -> Vec<Class> {
        self.requests().map(|(class, _)| class).collect()
    }

    pub(super) fn payloads(&self) -> Vec<Vec<u8>> {
        self.requests().map(|(_, payload)| payload.to_vec()).collect()
    }

    fn requests(&self) -> impl Iterator<Item = (Class, &[u8])> {
        self.heard.iter().filter_map(|heard| match heard {
            Heard::Request { class, payload, .. } => Some((*class, &payload[..])),
            _ => None,
        })
    }

    pub(super) fn outcomes(&self) -> Vec<(u64, Outcome)> {
        let response = |heard: &Heard| match heard {
            Heard::Response(number, outcome) => Some((*number, *outcome)),
            _ => None,
        };
        self.heard.iter().filter_map(response).collect()
    }

    pub(super) fn unintelligible(&self) -> usize {
        self.heard.iter().filter(|heard| matches!(heard, Heard::Unintelligible(..))).count()
    }

    /// The calls about one side's bytes.
    pub(super) fn of_side(&self, side: Side) -> Vec<Heard> {
        let is_its = |heard: &&Heard| match heard {
            Heard::Request { .. } => side == Side::Client,
            Heard::Response(..) => side == Side::Server,
            Heard::Unintelligible(of, _) => side == *of,
            Heard::Encrypted => true,
        };
        self.heard.iter().filter(is_its).cloned().collect()
    }
}

impl Listener for Recorder {
    fn request(&mut self, class: Class, payload: &[u8], offset: u64, _: Time) {
        self.heard.push(Heard::request(class, payload, offset));
    }

    fn response(&mut self, number: u64, outcome: Outcome, _: Time) {
        self.heard.push(Heard::Response(number, outcome));
    }

    fn unintelligible(&mut self, side: Side, why: &str, _: Time) {
        self.heard.push(Heard::Unintelligible(side, why.to_owned()));
    }

    fn encrypted(&mut self, _: Time) {
        self.heard.push(Heard::Encrypted);
    }
}
