//! How far something long is, said on standard error every ten percent.

/// It is said every so many percent.
const SAID_PERCENT: u64 = 10;

/// What was said last of how far something is.
#[derive(Default)]
pub(crate) struct Said(Option<(&'static str, u64)>);

impl Said {
    /// Says how far `what` is, unless that was said already.
    pub(crate) fn say(&mut self, what: &'static str, percentage: u64) {
        let tenths = percentage / SAID_PERCENT;
        if self.0.replace((what, tenths)) != Some((what, tenths)) {
            eprintln!("{what}: {} %", tenths * SAID_PERCENT);
        }
    }
}
