//! The table of users.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{DeclarationError, RuleError, SetUserError};
use crate::file::Roster;
use crate::patterns::ChannelDefault;
use crate::rules::{self, Unmatched};
use crate::user::User;

/// The name of the user of connections that have not authenticated.
const DEFAULT_NAME: &[u8] = b"default";

/// A user as a connection knows it, for as long as it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UserKey {
    slot: usize,
    /// How many users have had the slot before.
    turn: u64,
}

impl UserKey {
    /// The user `default`, which always exists.
    pub const DEFAULT: Self = Self { slot: 0, turn: 0 };
}

/// A place for a user.
#[derive(Debug)]
struct Slot {
    turn: u64,
    occupant: Option<(Box<[u8]>, User)>,
}

/// All users.
#[derive(Debug)]
pub struct Users {
    slots: Vec<Slot>,
    free: Vec<usize>,
    names: BTreeMap<Box<[u8]>, UserKey>,
    changed: BTreeSet<UserKey>,
    default: ChannelDefault,
}

impl Users {
    /// The user `default` alone, which may do everything without a password. Users made later have the channels that
    /// `default` says.
    #[must_use]
    pub fn new(default: ChannelDefault) -> Self {
        let user = User::unrestricted(default);
        let mut users = Self {
            slots: Vec::new(),
            free: Vec::new(),
            names: BTreeMap::new(),
            changed: BTreeSet::new(),
            default,
        };
        let key = users.insert(DEFAULT_NAME, user);
        assert_eq!(key, UserKey::DEFAULT);
        users
    }

    /// The users that were made, changed or deleted since this was asked for last.
    pub fn take_changed(&mut self) -> BTreeSet<UserKey> {
        std::mem::take(&mut self.changed)
    }

    /// Sets the channels of selectors made from now on.
    pub fn set_channel_default(&mut self, default: ChannelDefault) {
        self.default = default;
        for (_, user) in self.slots.iter_mut().filter_map(|slot| slot.occupant.as_mut()) {
            user.default = default;
        }
    }

    /// The channels of selectors made from now on.
    #[must_use]
    pub const fn channel_default(&self) -> ChannelDefault {
        self.default
    }

    /// The key of the user called `name`.
    #[must_use]
    pub fn key_of(&self, name: &[u8]) -> Option<UserKey> {
        self.names.get(name).copied()
    }

    /// The user called `name`.
    #[must_use]
    pub fn by_name(&self, name: &[u8]) -> Option<&User> {
        self.get(self.key_of(name)?)
    }

    /// The user with this key, if it still exists.
    #[must_use]
    pub fn get(&self, key: UserKey) -> Option<&User> {
        self.occupant(key).map(|(_, user)| user)
    }

    /// The name of the user with this key, if it still exists.
    #[must_use]
    pub fn name_of(&self, key: UserKey) -> Option<&[u8]> {
        self.occupant(key).map(|(name, _)| &**name)
    }

    fn occupant(&self, key: UserKey) -> Option<&(Box<[u8]>, User)> {
        self.slots.get(key.slot).filter(|slot| slot.turn == key.turn)?.occupant.as_ref()
    }

    /// The user `default`.
    #[must_use]
    pub fn default_user(&self) -> &User {
        self.get(UserKey::DEFAULT).expect("it always exists")
    }

    /// All users by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&[u8], &User)> {
        self.names.iter().map(|(name, key)| (&**name, self.get(*key).expect("it has a name")))
    }

    /// Each user's line of ACL LIST and of a file: `user alice on …`.
    pub fn lines(&self) -> impl ExactSizeIterator<Item = Vec<u8>> {
        self.iter().map(|(name, user)| [b"user ", name, b" ", &user.describe()[..]].concat())
    }

    /// ACL SETUSER: applies all rules to a user, which is made if there is none of this name.
    ///
    /// # Errors
    /// The first thing that is wrong. Nothing has changed then.
    pub fn set_user(&mut self, name: &[u8], words: &[&[u8]]) -> Result<UserKey, SetUserError> {
        if !rules::is_valid_name(name) {
            return Err(SetUserError::BadName);
        }
        let merged = rules::merge_selectors(words)
            .map_err(|Unmatched(index)| SetUserError::Unmatched(text(words[index])))?;
        let key = self.key_of(name);
        let known = key.and_then(|key| self.get(key));
        let mut user = known.cloned().unwrap_or_else(|| User::new(self.default));
        for rule in &merged {
            user.apply(rule).map_err(|error| SetUserError::Modifier(shown(rule, error), error))?;
        }
        Ok(self.put(name, user))
    }

    /// A line `user …` of the configuration. It says all of a user: what `default` was before is forgotten.
    ///
    /// # Errors
    /// What is wrong with it. Nothing has changed then.
    pub fn declare(&mut self, name: &[u8], words: &[&[u8]]) -> Result<UserKey, DeclarationError> {
        if !rules::is_valid_name(name) {
            return Err(DeclarationError::BadName);
        }
        if name != DEFAULT_NAME && self.names.contains_key(name) {
            return Err(DeclarationError::Duplicate(text(name)));
        }
        let merged = rules::merge_selectors(words).map_err(|Unmatched(index)| {
            DeclarationError::Unmatched(without_secret(words[index]))
        })?;
        let mut user = User::new(self.default);
        if name == DEFAULT_NAME {
            user.apply(b"reset").expect("a rule of all versions");
        }
        for rule in &merged {
            user.apply(rule)
                .map_err(|error| DeclarationError::Rule(without_secret(rule), text(name), error))?;
        }
        Ok(self.put(name, user))
    }

    /// Sets the password of `default` alone, as `requirepass` does; an empty one means that none is needed.
    ///
    /// # Errors
    /// [`RuleError::PasswordTooLong`].
    pub fn require_password(&mut self, password: &[u8]) -> Result<(), RuleError> {
        let mut user = self.default_user().clone();
        user.apply(b"resetpass")?;
        if password.is_empty() {
            user.apply(b"nopass")?;
        } else {
            user.apply(&[b">", password].concat())?;
        }
        self.put(DEFAULT_NAME, user);
        Ok(())
    }

    /// Deletes a user and returns whether there was one of this name. The user `default` stays.
    pub fn delete(&mut self, name: &[u8]) -> bool {
        if name == DEFAULT_NAME {
            return false;
        }
        let Some(key) = self.names.remove(name) else { return false };
        let slot = &mut self.slots[key.slot];
        slot.occupant = None;
        slot.turn += 1;
        self.free.push(key.slot);
        self.changed.insert(key);
        true
    }

    /// Whether this is a user's name and the password is right.
    #[must_use]
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<UserKey> {
        let key = self.key_of(name)?;
        self.get(key)?.accepts(password).then_some(key)
    }

    /// ACL LOAD: these users instead of all others. One that is the same keeps its key, and so does `default`,
    /// which is unrestricted if the file does not have it.
    pub fn replace(&mut self, roster: Roster) {
        let mut new = roster.into_users();
        new.entry(DEFAULT_NAME.into()).or_insert_with(|| User::unrestricted(self.default));
        let names: Vec<Box<[u8]>> = self.names.keys().cloned().collect();
        for name in names.iter().filter(|name| ***name != *DEFAULT_NAME) {
            if new.get(name) != self.by_name(name) {
                self.delete(name);
            }
        }
        for (name, user) in new {
            self.put(&name, user);
        }
    }

    /// Gives a name a user, and an old user of that name keeps its key.
    fn put(&mut self, name: &[u8], user: User) -> UserKey {
        let Some(key) = self.key_of(name) else { return self.insert(name, user) };
        let (_, old) = self.slots[key.slot].occupant.as_mut().expect("it has a name");
        if *old != user {
            *old = user;
            self.changed.insert(key);
        }
        key
    }

    fn insert(&mut self, name: &[u8], user: User) -> UserKey {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot { turn: 0, occupant: None });
            self.slots.len() - 1
        });
        let place = &mut self.slots[slot];
        place.occupant = Some((name.into(), user));
        let key = UserKey { slot, turn: place.turn };
        self.names.insert(name.into(), key);
        self.changed.insert(key);
        key
    }
}

/// Bytes of a client for an error message.
pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// A rule for an error message: not one with a password in it.
fn shown(rule: &[u8], error: RuleError) -> String {
    let sign = rule.get(..1).unwrap_or_default();
    if error == RuleError::PasswordTooLong { text(sign) } else { text(rule) }
}

/// A rule for an error message that others may read, too.
///
/// What is no rule may be a password whose sign was forgotten, and a selector may have one within.
pub(crate) fn without_secret(rule: &[u8]) -> String {
    match rule {
        [b'+' | b'-' | b'~' | b'%' | b'&', ..] => text(rule),
        [sign, ..] if sign.is_ascii_punctuation() => format!("{}(redacted)", char::from(*sign)),
        _ => "(redacted)".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(users: &mut Users, name: &str, rules: &str) -> UserKey {
        let words: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
        users.set_user(name.as_bytes(), &words).unwrap()
    }

    #[test]
    fn a_key_survives_changes_and_is_never_another_users() {
        let mut users = Users::new(ChannelDefault::Nothing);
        users.take_changed();
        let key = set(&mut users, "a", "on >x +get");
        assert_eq!(users.take_changed().into_iter().collect::<Vec<_>>(), [key], "a new one");
        assert_eq!(set(&mut users, "a", "-get"), key);
        assert_eq!(users.take_changed().into_iter().collect::<Vec<_>>(), [key]);
        assert_eq!(set(&mut users, "a", "-get"), key);
        assert!(users.take_changed().is_empty());
        assert!(users.delete(b"a") && users.get(key).is_none());
        let again = set(&mut users, "a", "on");
        assert_ne!(again, key);
        assert!(users.get(key).is_none() && users.name_of(again) == Some(b"a"));
    }

    #[test]
    fn the_default_user_stays() {
        let mut users = Users::new(ChannelDefault::Nothing);
        assert!(!users.delete(b"default"));
        users.replace(Roster::default());
        assert!(users.default_user().needs_no_password());
        users.require_password(b"x").unwrap();
        assert_eq!(users.authenticate(b"default", b"x"), Some(UserKey::DEFAULT));
        assert_eq!(users.authenticate(b"default", b"y"), None);
        users.require_password(b"").unwrap();
        assert_eq!(users.authenticate(b"default", b"y"), Some(UserKey::DEFAULT));
    }

    #[test]
    fn passwords_are_added_removed_and_never_shown() {
        let mut users = Users::new(ChannelDefault::Nothing);
        set(&mut users, "a", "on >x >y");
        assert!(
            users.authenticate(b"a", b"x").is_some() && users.authenticate(b"a", b"y").is_some()
        );
        set(&mut users, "a", "<x");
        assert!(
            users.authenticate(b"a", b"x").is_none() && users.authenticate(b"a", b"y").is_some()
        );
        set(&mut users, "a", "off");
        assert!(users.authenticate(b"a", b"y").is_none());
        let long = vec![b'x'; crate::password::PASSWORD_BYTES_MAX + 1];
        let error = users.set_user(b"a", &[&[b">", &long[..]].concat()]).unwrap_err();
        assert!(error.to_string().len() < 200, "{error}");
        assert!(format!("{users:?}").contains("(redacted)"));
    }

    #[test]
    fn rules_are_applied_all_or_none() {
        let mut users = Users::new(ChannelDefault::Nothing);
        set(&mut users, "a", "+get");
        let line = users.by_name(b"a").unwrap().describe();
        for words in [&[&b"+set"[..], b"+nope"][..], &[b"+set", b"(~a"], &[b"+set", b"(on)"]] {
            users.set_user(b"a", words).unwrap_err();
            assert_eq!(users.by_name(b"a").unwrap().describe(), line);
        }
        assert!(users.set_user(b"b", &[b"+nope"]).is_err() && users.by_name(b"b").is_none());
    }

    #[test]
    fn a_file_keeps_the_keys_of_what_is_the_same() {
        let mut users = Users::new(ChannelDefault::Nothing);
        let (same, changed) = (set(&mut users, "a", "on +get"), set(&mut users, "b", "on +get"));
        let gone = set(&mut users, "c", "on");
        let text = b"user a on +get\nuser b on +set\nuser d on\n";
        users.replace(Roster::parse(text, "f", ChannelDefault::Nothing).unwrap());
        users.take_changed();
        // One more, and the others as they are.
        let text = [&text[..], b"user e on\n"].concat();
        users.replace(Roster::parse(&text, "f", ChannelDefault::Nothing).unwrap());
        let added = users.key_of(b"e").unwrap();
        assert_eq!(users.take_changed().into_iter().collect::<Vec<_>>(), [added]);
        assert!(users.get(same).is_some());
        assert!(users.get(changed).is_none() && users.get(gone).is_none());
        assert_eq!(users.iter().count(), 5);
    }
}
