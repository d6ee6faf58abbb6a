//! When keys of the past expire: `--expiry`.

use env::Clock as _;
use env_os::OsClock;

/// When keys expire that are brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Expiry {
    /// When they would have.
    Absolute,
    /// After as long as they had left then.
    Relative,
    /// Never.
    Never,
}

impl Expiry {
    /// What a restore is told, now.
    pub(crate) fn of_log(self) -> redo::Expiry {
        match self {
            Self::Absolute => redo::Expiry::Absolute,
            Self::Relative => redo::Expiry::Relative { now_ms: OsClock::new().now_ms() },
            Self::Never => redo::Expiry::Never,
        }
    }

    /// How it is said.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Absolute => "absolute",
            Self::Relative => "relative",
            Self::Never => "never",
        }
    }
}
