//! Which servers have a command, and what has changed in it since.

/// The servers that have something, all since [`Spec::since`](super::Spec::since) unless it says
/// otherwise. Valkey began as a copy of Redis 7.2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Redis, and every version of Valkey.
    Common,
    /// Redis alone.
    Redis,
    /// Valkey alone.
    Valkey,
    /// Redis, and Valkey since this version of it.
    RedisThenValkey(&'static str),
    /// Valkey, and Redis since this version of it.
    ValkeyThenRedis(&'static str),
    /// Indelible alone.
    Indelible,
}

impl Origin {
    /// The versions that brought it, as people name them: `Redis 7.4, Valkey 9.0`.
    #[must_use]
    pub fn releases(self, since: &str) -> String {
        match self {
            Self::Common | Self::Redis => release("Redis", since),
            Self::Valkey => release("Valkey", since),
            Self::RedisThenValkey(valkey) => {
                format!("{}, {}", release("Redis", since), release("Valkey", valkey))
            }
            Self::ValkeyThenRedis(redis) => {
                format!("{}, {}", release("Valkey", since), release("Redis", redis))
            }
            Self::Indelible => release("Indelible", since),
        }
    }
}

/// A server and its version; a last part that is 0 is left out.
fn release(server: &str, version: &str) -> String {
    format!("{server} {}", version.strip_suffix(".0").unwrap_or(version))
}

/// A change of a command that the `since` of its arguments does not tell.
///
/// The arguments of a command that is served are those that are served. What newer servers have
/// added stands here.
#[derive(Clone, Copy, Debug)]
pub struct Change {
    /// The version that made the change.
    pub since: &'static str,
    /// Whose version it is.
    pub origin: Origin,
    /// What has changed, in a few words.
    pub what: &'static str,
    /// Whether Indelible has it too.
    pub served: bool,
}

impl Change {
    /// A change that Redis made and that Indelible has.
    #[must_use]
    pub const fn new(since: &'static str, what: &'static str) -> Self {
        Self { since, origin: Origin::Common, what, served: true }
    }

    /// One that Indelible does not have.
    #[must_use]
    pub const fn absent(origin: Origin, since: &'static str, what: &'static str) -> Self {
        Self { since, origin, what, served: false }
    }
}
