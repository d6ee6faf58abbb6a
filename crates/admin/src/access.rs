//! Which requests have shown the token, or a session that was made with it.
//!
//! ```text
//!   no token shown ────────────────► refused at once
//!   a wrong one ─── may be compared ─► refused after WRONG_AFTER, whatever was wrong
//!               └── too many lately ─► refused as Limited, uncompared, by then also if it were right
//! ```
//!
//! A connection that has shown the token once is compared with always: a stranger that tries tokens does not lock
//! out a viewer that is there.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ring::hmac;
use ring::rand::SystemRandom;

use crate::error::{AdminError, Result};
use crate::token::hex;

/// How long after its request a wrong token is answered.
pub(crate) const WRONG_AFTER: Duration = Duration::from_millis(100);

/// How many wrong tokens are compared within a second.
pub(crate) const WRONG_PER_SECOND: usize = 10;

/// How long a session lasts.
pub(crate) const SESSION_S: u64 = 12 * 3600;

/// What a request shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Credential<'a> {
    Nothing,
    Token(&'a str),
    Session(&'a str),
}

/// What is made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Granted,
    /// There is nothing to compare: no token, or a session that has come to its end.
    Absent,
    Wrong,
    Limited,
}

/// See the file's top.
pub(crate) struct Access {
    /// Made for this life: what of a token can be measured says nothing in another one.
    compare_key: hmac::Key,
    token_tag: hmac::Tag,
    session_key: hmac::Key,
    wrong: Mutex<Vec<Instant>>,
}

impl Access {
    pub(crate) fn new(token: &str) -> Result<Self> {
        let compare_key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new())
            .map_err(|_| AdminError::NoRandomness)?;
        let token_tag = hmac::sign(&compare_key, token.as_bytes());
        let session_key = hmac::Key::new(hmac::HMAC_SHA256, token.as_bytes());
        Ok(Self { compare_key, token_tag, session_key, wrong: Mutex::default() })
    }

    /// Judges what a request shows. `is_known`: its connection has shown the token before.
    pub(crate) fn judge(
        &self,
        shown: Credential<'_>,
        is_known: bool,
        now: Instant,
        unix_s: u64,
    ) -> Verdict {
        if shown == Credential::Nothing {
            return Verdict::Absent;
        }
        let mut wrong = self.wrong.lock().unwrap_or_else(PoisonError::into_inner);
        wrong.retain(|at| now.saturating_duration_since(*at) < Duration::from_secs(1));
        if !is_known && wrong.len() >= WRONG_PER_SECOND {
            return Verdict::Limited;
        }
        let verdict = match shown {
            Credential::Nothing => Verdict::Absent,
            Credential::Token(token) => self.judge_token(token),
            Credential::Session(session) => self.judge_session(session, unix_s),
        };
        if verdict == Verdict::Wrong && wrong.len() < WRONG_PER_SECOND {
            wrong.push(now);
        }
        verdict
    }

    fn judge_token(&self, token: &str) -> Verdict {
        let is_it =
            hmac::verify(&self.compare_key, token.as_bytes(), self.token_tag.as_ref()).is_ok();
        if is_it { Verdict::Granted } else { Verdict::Wrong }
    }

    fn judge_session(&self, session: &str, unix_s: u64) -> Verdict {
        let Some((end, code)) = session.split_once('.') else { return Verdict::Wrong };
        let Some(code) = from_hex(code) else { return Verdict::Wrong };
        if hmac::verify(&self.session_key, &signed(end), &code).is_err() {
            return Verdict::Wrong;
        }
        let is_over = end.parse::<u64>().map_or(true, |end_s| end_s <= unix_s);
        if is_over { Verdict::Absent } else { Verdict::Granted }
    }

    /// A session that begins now.
    pub(crate) fn new_session(&self, unix_s: u64) -> String {
        let end = (unix_s + SESSION_S).to_string();
        let code = hmac::sign(&self.session_key, &signed(&end));
        format!("{end}.{}", hex(code.as_ref()))
    }
}

/// What a session's code is over: nothing else that the token may sign begins so.
fn signed(end: &str) -> Vec<u8> {
    format!("admin session until {end}").into_bytes()
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

    const TOKEN: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn the_token_and_its_sessions_are_granted_and_nothing_else() {
        let (access, now) = (Access::new(TOKEN).unwrap(), Instant::now());
        let session = access.new_session(1000);
        let other = Access::new("another token, as long as the first").unwrap().new_session(1000);
        let longer = session.replacen('.', "0.", 1);
        for (shown, unix_s, expected) in [
            (Credential::Nothing, 0, Verdict::Absent),
            (Credential::Token(TOKEN), 0, Verdict::Granted),
            (Credential::Token(""), 0, Verdict::Wrong),
            (Credential::Token(&TOKEN[..31]), 0, Verdict::Wrong),
            (Credential::Session(&session), 1000, Verdict::Granted),
            (Credential::Session(&session), 1000 + SESSION_S, Verdict::Absent),
            (Credential::Session(&longer), 1000, Verdict::Wrong),
            (Credential::Session(&other), 1000, Verdict::Wrong),
            (Credential::Session(TOKEN), 1000, Verdict::Wrong),
        ] {
            assert_eq!(access.judge(shown, false, now, unix_s), expected, "{shown:?}");
        }
    }

    #[test]
    fn ten_wrong_tokens_a_second_are_compared() {
        let (access, begin) = (Access::new(TOKEN).unwrap(), Instant::now());
        let judge = |token, is_known, now| access.judge(Credential::Token(token), is_known, now, 0);
        for _ in 0..WRONG_PER_SECOND {
            assert_eq!(judge("wrong", false, begin), Verdict::Wrong);
        }
        let soon = begin + Duration::from_millis(999);
        assert_eq!(judge(TOKEN, false, soon), Verdict::Limited, "also a right one");
        assert_eq!(judge(TOKEN, true, soon), Verdict::Granted, "but for viewers that are there");
        let later = begin + Duration::from_secs(1);
        assert_eq!(judge(TOKEN, false, later), Verdict::Granted);
        assert_eq!(judge("wrong", false, later), Verdict::Wrong);
    }
}
