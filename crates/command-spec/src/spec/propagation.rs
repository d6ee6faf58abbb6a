//! How what a command did reaches a replica.
//!
//! A replica executes what it is sent, later than the master and on a clock of its own. So a call
//! whose effect depends on the time, on chance, on which client waits, or on rounding is sent as
//! other calls that say what it did. This column is what Redis 7.2 to 8 and Valkey 9 do.

/// What is sent to replicas after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Nothing: it changes nothing that a replica has.
    None,
    /// The call as it was made, if it changed anything.
    Verbatim,
    /// The call as it was made, even if it changed nothing here.
    Always,
    /// Other calls, if it changed anything: each whose case holds, or the call if none does.
    Rewritten(&'static [Rewrite]),
    /// What the commands inside it propagate, as one transaction.
    Effects,
}

/// Calls that are sent in place of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rewrite {
    /// In which case; empty if in all that the others do not describe.
    pub when: &'static str,
    /// The call that is sent, in the notation of the documentation.
    pub sent: &'static str,
}

impl Propagation {
    /// The rewrites, if there are any.
    #[must_use]
    pub const fn rewrites(self) -> &'static [Rewrite] {
        match self {
            Self::Rewritten(rewrites) => rewrites,
            _ => &[],
        }
    }
}

/// Sent in place of every call that no other rewrite describes.
pub(crate) const fn always(sent: &'static str) -> Rewrite {
    Rewrite { when: "", sent }
}

/// Sent in place of a call in this case.
pub(crate) const fn when(when: &'static str, sent: &'static str) -> Rewrite {
    Rewrite { when, sent }
}

/// Sent in place of a call that gives a time to live which is over already.
pub(crate) const EXPIRED: Rewrite = when("the time is past", "DEL key");
