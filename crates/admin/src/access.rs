//! Which requests have shown the token, or a session that was begun with it.
//!
//! ```text
//!   anything right shown ───────────► granted, always: others that try tokens keep no viewer out
//!   nothing ────────────────────────► refused at once
//!   something wrong ── not many ────► refused after WRONG_AFTER
//!                   └─ many lately ─► the same, as Limited
//! ```
//!
//! A session is a number and a code over it, made with a key of this life. Those that have begun and not ended are
//! remembered, at most `SESSIONS_MAX`: signing out ends one here, not only in the browser that had it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use ring::hmac;
use ring::rand::SystemRandom;

use crate::error::{AdminError, Result};
use crate::token::hex;

/// How long after its request a wrong token is answered.
pub(crate) const WRONG_AFTER: Duration = Duration::from_millis(100);

/// After so many requests with wrong tokens within a second, further ones are told so.
pub(crate) const WRONG_PER_SECOND: usize = 10;

/// How long a session lasts.
pub(crate) const SESSION_FOR: Duration = Duration::from_secs(12 * 3600);

/// How many sessions there are at most: one more ends the oldest.
pub(crate) const SESSIONS_MAX: usize = 64;

/// What a request shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credential<'a> {
    Token(&'a str),
    Session(&'a str),
}

/// What is made of it, the best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Verdict {
    Granted,
    Limited,
    Wrong,
    /// Nothing was shown, or a session that has ended.
    Absent,
}

/// See the file's top.
pub(crate) struct Access {
    /// Made for this life, as the next one: what of a token can be measured says nothing in another one.
    compare_key: hmac::Key,
    session_key: hmac::Key,
    token_tag: hmac::Tag,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    /// At most [`WRONG_PER_SECOND`].
    wrong: Vec<Instant>,
    sessions: VecDeque<Session>,
    session_count: u64,
}

struct Session {
    number: u64,
    begun: Instant,
}

impl Access {
    pub(crate) fn new(token: &str) -> Result<Self> {
        let random_key = || {
            let made = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
            made.map_err(|_| AdminError::NoRandomness)
        };
        let (compare_key, session_key) = (random_key()?, random_key()?);
        let token_tag = hmac::sign(&compare_key, token.as_bytes());
        Ok(Self { compare_key, session_key, token_tag, memory: Mutex::default() })
    }

    /// Judges what a request shows: it needs one thing that is right.
    pub(crate) fn judge(&self, shown: &[Credential<'_>], now: Instant) -> Verdict {
        let mut memory = self.memory();
        memory.forget_old(now);
        let verdicts = shown.iter().map(|it| match it {
            Credential::Token(token) => self.judge_token(token),
            Credential::Session(session) => match self.number_of(session) {
                Some(number) if memory.has_session(number) => Verdict::Granted,
                Some(_) => Verdict::Absent,
                None => Verdict::Wrong,
            },
        });
        match verdicts.min() {
            Some(Verdict::Wrong) if memory.wrong.len() >= WRONG_PER_SECOND => Verdict::Limited,
            Some(Verdict::Wrong) => {
                memory.wrong.push(now);
                Verdict::Wrong
            }
            verdict => verdict.unwrap_or(Verdict::Absent),
        }
    }

    fn judge_token(&self, token: &str) -> Verdict {
        let is_it =
            hmac::verify(&self.compare_key, token.as_bytes(), self.token_tag.as_ref()).is_ok();
        if is_it { Verdict::Granted } else { Verdict::Wrong }
    }

    /// The number of a session that was made here, in this life.
    fn number_of(&self, session: &str) -> Option<u64> {
        let (number, code) = session.split_once('.')?;
        let code = from_hex(code)?;
        hmac::verify(&self.session_key, number.as_bytes(), &code).ok()?;
        number.parse().ok()
    }

    /// Begins a session.
    pub(crate) fn begin_session(&self, now: Instant) -> String {
        let mut memory = self.memory();
        memory.forget_old(now);
        if memory.sessions.len() == SESSIONS_MAX {
            memory.sessions.pop_front();
        }
        memory.session_count += 1;
        let session = Session { number: memory.session_count, begun: now };
        let number = session.number.to_string();
        memory.sessions.push_back(session);
        let code = hmac::sign(&self.session_key, number.as_bytes());
        format!("{number}.{}", hex(code.as_ref()))
    }

    /// Ends the sessions that a request shows.
    pub(crate) fn end_sessions(&self, shown: &[Credential<'_>]) {
        let ended = shown.iter().filter_map(|it| match it {
            Credential::Token(_) => None,
            Credential::Session(session) => self.number_of(session),
        });
        let ended: Vec<u64> = ended.collect();
        self.memory().sessions.retain(|session| !ended.contains(&session.number));
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Memory {
    fn forget_old(&mut self, now: Instant) {
        let age = |at: Instant| now.saturating_duration_since(at);
        self.wrong.retain(|at| age(*at) < Duration::from_secs(1));
        self.sessions.retain(|session| age(session.begun) < SESSION_FOR);
    }

    fn has_session(&self, number: u64) -> bool {
        self.sessions.iter().any(|session| session.number == number)
    }
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    if text.len() != 64 || !text.is_ascii() {
        return None;
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use Credential::{Session, Token};

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn the_token_and_its_sessions_are_granted_and_nothing_else() {
        let (access, now) = (Access::new(TOKEN).unwrap(), Instant::now());
        let session = access.begin_session(now);
        // Of another life, with the same token.
        let other = Access::new(TOKEN).unwrap().begin_session(now);
        let another = session.replacen("1.", "2.", 1);
        for (shown, expected) in [
            (&[][..], Verdict::Absent),
            (&[Token(TOKEN)], Verdict::Granted),
            (&[Token("")], Verdict::Wrong),
            (&[Token(&TOKEN[..31])], Verdict::Wrong),
            (&[Session(&session)], Verdict::Granted),
            (&[Session(&another)], Verdict::Wrong),
            (&[Session(&other)], Verdict::Wrong),
            (&[Session(TOKEN)], Verdict::Wrong),
            (&[Token("wrong"), Session(&session)], Verdict::Granted),
            (&[Session("wrong"), Session(&session)], Verdict::Granted),
            (&[Token("wrong"), Token(TOKEN)], Verdict::Granted),
        ] {
            assert_eq!(access.judge(shown, now), expected, "{shown:?}");
        }
    }

    #[test]
    fn a_session_ends_by_itself_or_when_it_is_ended() {
        let (access, begun) = (Access::new(TOKEN).unwrap(), Instant::now());
        let judge = |session: &str, now| access.judge(&[Session(session)], now);
        let (first, second) = (access.begin_session(begun), access.begin_session(begun));
        access.end_sessions(&[Session(&first), Session("3.x"), Token(TOKEN)]);
        assert_eq!(judge(&first, begun), Verdict::Absent);
        assert_eq!(judge(&second, begun), Verdict::Granted);
        assert_eq!(judge(&second, begun + SESSION_FOR), Verdict::Absent);
        let all: Vec<String> = (0..=SESSIONS_MAX).map(|_| access.begin_session(begun)).collect();
        assert_eq!(judge(&all[0], begun), Verdict::Absent, "the oldest gives way");
        assert!(all[1..].iter().all(|it| judge(it, begun) == Verdict::Granted));
    }

    #[test]
    fn wrong_tokens_are_limited_and_right_ones_are_not() {
        let (access, begun) = (Access::new(TOKEN).unwrap(), Instant::now());
        let judge = |token, now| access.judge(&[Token(token)], now);
        for _ in 0..WRONG_PER_SECOND {
            assert_eq!(judge("wrong", begun), Verdict::Wrong);
        }
        let soon = begun + Duration::from_millis(999);
        assert_eq!(judge("wrong", soon), Verdict::Limited);
        assert_eq!(judge(TOKEN, soon), Verdict::Granted);
        let session = access.begin_session(soon);
        assert_eq!(access.judge(&[Session(&session)], soon), Verdict::Granted);
        assert_eq!(access.judge(&[], soon), Verdict::Absent);
        assert_eq!(judge("wrong", begun + Duration::from_secs(1)), Verdict::Wrong);
    }
}
