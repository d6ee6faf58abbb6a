//! The keys and the channels that a selector allows.

use base::glob;
use command_spec::spec::KeyFlags;

/// What a rule allows for keys, or what a call does with one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyAccess {
    /// Values are returned, copied or compared.
    pub reads: bool,
    /// Values change.
    pub writes: bool,
}

impl KeyAccess {
    /// Both.
    pub const ALL: Self = Self { reads: true, writes: true };
    /// Reading alone.
    pub const READ: Self = Self { reads: true, writes: false };

    /// What a command with these flags does with a key. Neither is needed to learn whether it exists.
    pub(crate) const fn of(flags: KeyFlags) -> Self {
        let writing = KeyFlags::INSERT.with(KeyFlags::DELETE).with(KeyFlags::UPDATE);
        Self { reads: flags.has(KeyFlags::ACCESS), writes: flags.intersects(writing) }
    }

    const fn includes(self, other: Self) -> bool {
        (self.reads || !other.reads) && (self.writes || !other.writes)
    }
}

/// A pattern of keys, as `%R~pattern` sets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyPattern {
    pub(crate) pattern: Box<[u8]>,
    pub(crate) access: KeyAccess,
}

/// The keys that a selector allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Keys {
    All,
    OneOf(Vec<KeyPattern>),
}

impl Keys {
    pub(crate) fn allow(&self, key: &[u8], access: KeyAccess) -> bool {
        match self {
            Self::All => true,
            Self::OneOf(patterns) => patterns
                .iter()
                .any(|it| it.access.includes(access) && glob::matches(&it.pattern, key)),
        }
    }

    /// Whether every key is allowed.
    pub(crate) fn allow_all(&self, access: KeyAccess) -> bool {
        match self {
            Self::All => true,
            Self::OneOf(patterns) => patterns
                .iter()
                .any(|it| it.access.includes(access) && glob::is_everything(&it.pattern)),
        }
    }

    /// Adds a pattern, or the access to one that is there.
    pub(crate) fn add(patterns: &mut Vec<KeyPattern>, pattern: &[u8], access: KeyAccess) {
        match patterns.iter_mut().find(|it| *it.pattern == *pattern) {
            Some(known) => {
                known.access.reads |= access.reads;
                known.access.writes |= access.writes;
            }
            None => patterns.push(KeyPattern { pattern: pattern.into(), access }),
        }
    }

    /// The rules that set these keys.
    pub(crate) fn rules(&self) -> Vec<Vec<u8>> {
        let Self::OneOf(patterns) = self else { return vec![b"~*".to_vec()] };
        let is_only_one = patterns.len() == 1;
        let rule = |KeyPattern { pattern, access }: &KeyPattern| {
            let sign: &[u8] = match (access.reads, access.writes) {
                (true, false) => b"%R~",
                (false, true) => b"%W~",
                // After `~*`, which Redis makes of it, no other pattern is taken.
                _ if glob::is_everything(pattern) && !is_only_one => b"%RW~",
                _ => b"~",
            };
            [sign, pattern].concat()
        };
        patterns.iter().map(rule).collect()
    }
}

/// The channels that a selector allows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Channels {
    All,
    OneOf(Vec<Box<[u8]>>),
}

impl Channels {
    /// Whether a channel is allowed, or the subscription to a pattern, which must be there literally.
    pub(crate) fn allow(&self, name: &[u8], is_pattern: bool) -> bool {
        match self {
            Self::All => true,
            Self::OneOf(patterns) => patterns.iter().any(|pattern| {
                if is_pattern { **pattern == *name } else { glob::matches(pattern, name) }
            }),
        }
    }

    /// The rules that set these channels.
    pub(crate) fn rules(&self) -> Vec<Vec<u8>> {
        match self {
            Self::All => vec![b"&*".to_vec()],
            Self::OneOf(patterns) => patterns.iter().map(|it| [b"&", &**it].concat()).collect(),
        }
    }
}

/// The channels of a new selector: `acl-pubsub-default`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ChannelDefault {
    /// `allchannels`.
    All,
    /// `resetchannels`.
    #[default]
    Nothing,
}

impl ChannelDefault {
    pub(crate) const fn channels(self) -> Channels {
        match self {
            Self::All => Channels::All,
            Self::Nothing => Channels::OneOf(Vec::new()),
        }
    }
}
