//! The arguments of a command as a tree, as COMMAND DOCS shows them.

use super::ArgFlags;

/// What an argument looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgKind {
    /// Any bytes.
    String,
    /// A whole number.
    Integer,
    /// A floating point number.
    Double,
    /// A key.
    Key,
    /// A glob-style pattern.
    Pattern,
    /// A point in time since the epoch.
    UnixTime,
    /// A word that stands for itself.
    PureToken,
    /// One of the nested arguments.
    OneOf,
    /// All of the nested arguments.
    Block,
}

impl ArgKind {
    /// The name that COMMAND DOCS shows.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Integer => "integer",
            Self::Double => "double",
            Self::Key => "key",
            Self::Pattern => "pattern",
            Self::UnixTime => "unix-time",
            Self::PureToken => "pure-token",
            Self::OneOf => "oneof",
            Self::Block => "block",
        }
    }
}

/// One argument of a command, possibly made of others.
#[derive(Clone, Copy, Debug)]
pub struct Arg {
    /// What the documentation calls it.
    pub name: &'static str,
    /// What it looks like.
    pub kind: ArgKind,
    /// The word in front of it.
    pub token: Option<&'static str>,
    /// For keys: which of the command's key specs finds it.
    pub key_spec: Option<u8>,
    /// The version that introduced it, if the command is older.
    pub since: Option<&'static str>,
    /// The version that deprecated it.
    pub deprecated_since: Option<&'static str>,
    /// How often it appears.
    pub flags: ArgFlags,
    /// What it is made of.
    pub arguments: &'static [Arg],
}

impl Arg {
    const fn new(name: &'static str, kind: ArgKind) -> Self {
        Self {
            name,
            kind,
            token: None,
            key_spec: None,
            since: None,
            deprecated_since: None,
            flags: ArgFlags::NONE,
            arguments: &[],
        }
    }

    /// Any bytes.
    #[must_use]
    pub const fn string(name: &'static str) -> Self {
        Self::new(name, ArgKind::String)
    }

    /// A whole number.
    #[must_use]
    pub const fn integer(name: &'static str) -> Self {
        Self::new(name, ArgKind::Integer)
    }

    /// A floating point number.
    #[must_use]
    pub const fn double(name: &'static str) -> Self {
        Self::new(name, ArgKind::Double)
    }

    /// A key that the key spec number `key_spec` finds.
    #[must_use]
    pub const fn key(name: &'static str, key_spec: u8) -> Self {
        let mut arg = Self::new(name, ArgKind::Key);
        arg.key_spec = Some(key_spec);
        arg
    }

    /// A glob-style pattern.
    #[must_use]
    pub const fn pattern(name: &'static str) -> Self {
        Self::new(name, ArgKind::Pattern)
    }

    /// A point in time since the epoch.
    #[must_use]
    pub const fn unix_time(name: &'static str) -> Self {
        Self::new(name, ArgKind::UnixTime)
    }

    /// The word `token` itself.
    #[must_use]
    pub const fn word(name: &'static str, token: &'static str) -> Self {
        Self::new(name, ArgKind::PureToken).token(token)
    }

    /// One of `arguments`.
    #[must_use]
    pub const fn one_of(name: &'static str, arguments: &'static [Self]) -> Self {
        let mut arg = Self::new(name, ArgKind::OneOf);
        arg.arguments = arguments;
        arg
    }

    /// All of `arguments`.
    #[must_use]
    pub const fn block(name: &'static str, arguments: &'static [Self]) -> Self {
        let mut arg = Self::new(name, ArgKind::Block);
        arg.arguments = arguments;
        arg
    }

    /// With the word `token` in front.
    #[must_use]
    pub const fn token(mut self, token: &'static str) -> Self {
        self.token = Some(token);
        self
    }

    /// Found by the key spec number `key_spec` (for patterns that become keys).
    #[must_use]
    pub const fn key_spec(mut self, key_spec: u8) -> Self {
        self.key_spec = Some(key_spec);
        self
    }

    /// Introduced by this version.
    #[must_use]
    pub const fn since(mut self, version: &'static str) -> Self {
        self.since = Some(version);
        self
    }

    /// Deprecated by this version.
    #[must_use]
    pub const fn deprecated(mut self, version: &'static str) -> Self {
        self.deprecated_since = Some(version);
        self
    }

    /// May be left out.
    #[must_use]
    pub const fn optional(mut self) -> Self {
        self.flags = self.flags.with(ArgFlags::OPTIONAL);
        self
    }

    /// May be repeated.
    #[must_use]
    pub const fn multiple(mut self) -> Self {
        self.flags = self.flags.with(ArgFlags::MULTIPLE);
        self
    }

    /// May be repeated, each time with its token.
    #[must_use]
    pub const fn multiple_with_token(mut self) -> Self {
        self.flags = self.flags.with(ArgFlags::MULTIPLE).with(ArgFlags::MULTIPLE_TOKEN);
        self
    }
}
