//! A user: whether it may log in, with which passwords, and its selectors.

use crate::error::RuleError;
use crate::password::PasswordHash;
use crate::patterns::ChannelDefault;
use crate::selector::Selector;

/// The passwords that a user may give.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Passwords {
    /// Any: `nopass`.
    Any,
    /// One of these.
    OneOf(Vec<PasswordHash>),
}

/// A user and its permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub(crate) is_on: bool,
    /// What is said of the payloads of RESTORE, which are checked always.
    pub(crate) skips_sanitizing: bool,
    pub(crate) passwords: Passwords,
    pub(crate) root: Selector,
    pub(crate) selectors: Vec<Selector>,
    /// The channels of its next selector.
    pub(crate) default: ChannelDefault,
}

impl User {
    /// One that may do nothing and has no password.
    pub(crate) const fn new(default: ChannelDefault) -> Self {
        Self {
            is_on: false,
            skips_sanitizing: false,
            passwords: Passwords::OneOf(Vec::new()),
            root: Selector::new(default),
            selectors: Vec::new(),
            default,
        }
    }

    /// The user `default` of a server without any configuration: it may do everything, without a password.
    pub(crate) fn unrestricted(default: ChannelDefault) -> Self {
        let mut user = Self::new(default);
        for rule in [&b"+@all"[..], b"~*", b"&*", b"on", b"nopass"] {
            user.apply(rule).expect("a rule of all versions");
        }
        user
    }

    /// Whether it may log in. Connections that have done so keep what they may do.
    #[must_use]
    pub const fn is_on(&self) -> bool {
        self.is_on
    }

    /// Whether any password is right: `nopass`.
    #[must_use]
    pub const fn needs_no_password(&self) -> bool {
        matches!(self.passwords, Passwords::Any)
    }

    /// Whether it may log in with this password.
    pub(crate) fn accepts(&self, password: &[u8]) -> bool {
        match &self.passwords {
            _ if !self.is_on => false,
            Passwords::Any => true,
            Passwords::OneOf(known) => {
                PasswordHash::of(password).is_ok_and(|hash| known.contains(&hash))
            }
        }
    }

    /// All selectors, the root first.
    pub(crate) fn all_selectors(&self) -> impl Iterator<Item = &Selector> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    /// Applies one rule.
    ///
    /// # Errors
    /// Why it cannot be.
    pub(crate) fn apply(&mut self, rule: &[u8]) -> Result<(), RuleError> {
        match rule {
            [] => return Ok(()),
            [b'>', password @ ..] => return self.add_password(PasswordHash::of(password)?),
            [b'#', digits @ ..] => return self.add_password(PasswordHash::from_hex(digits)?),
            [b'<', password @ ..] => return self.remove_password(&PasswordHash::of(password)?),
            [b'!', digits @ ..] => return self.remove_password(&PasswordHash::from_hex(digits)?),
            [b'(', inside @ .., b')'] => return self.add_selector(inside),
            _ => {}
        }
        match rule.to_ascii_lowercase().as_slice() {
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"skip-sanitize-payload" => self.skips_sanitizing = true,
            b"sanitize-payload" => self.skips_sanitizing = false,
            b"nopass" => self.passwords = Passwords::Any,
            b"resetpass" => self.passwords = Passwords::OneOf(Vec::new()),
            b"clearselectors" => self.selectors.clear(),
            b"reset" => *self = Self::new(self.default),
            _ => return self.root.apply(rule),
        }
        Ok(())
    }

    fn add_password(&mut self, hash: PasswordHash) -> Result<(), RuleError> {
        match &mut self.passwords {
            Passwords::Any => self.passwords = Passwords::OneOf(vec![hash]),
            Passwords::OneOf(known) if known.contains(&hash) => {}
            Passwords::OneOf(known) => known.push(hash),
        }
        Ok(())
    }

    fn remove_password(&mut self, hash: &PasswordHash) -> Result<(), RuleError> {
        if let Passwords::OneOf(known) = &mut self.passwords
            && let Some(index) = known.iter().position(|it| it == hash)
        {
            known.remove(index);
            return Ok(());
        }
        Err(RuleError::NoSuchPassword)
    }

    fn add_selector(&mut self, inside: &[u8]) -> Result<(), RuleError> {
        let (mut bytes, mut words) = (Vec::new(), Vec::new());
        if resp::split_words(inside, &mut bytes, &mut words).is_none() {
            // Redis takes what it cannot split for nothing, and the selector allows nothing.
            words.clear();
        }
        let mut selector = Selector::new(self.default);
        for word in words {
            selector.apply(&bytes[word])?;
        }
        self.selectors.push(selector);
        Ok(())
    }
}
