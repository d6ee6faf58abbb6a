//! Sets of commands as bits by ordinal, and the categories as such sets.

use std::sync::LazyLock;

use command_spec::spec::Categories;
use command_spec::table::{Command, ORDINAL_COUNT};

const WORD_COUNT: usize = ORDINAL_COUNT.div_ceil(64);

/// A set of commands and subcommands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommandSet {
    words: [u64; WORD_COUNT],
}

impl CommandSet {
    pub(crate) const EMPTY: Self = Self { words: [0; WORD_COUNT] };

    /// Every command of the table.
    pub(crate) fn full() -> Self {
        let mut all = Self::EMPTY;
        (0..ORDINAL_COUNT).for_each(|ordinal| all.set(ordinal, true));
        all
    }

    pub(crate) const fn has(&self, ordinal: usize) -> bool {
        self.words[ordinal / 64] & (1 << (ordinal % 64)) != 0
    }

    pub(crate) const fn set(&mut self, ordinal: usize, is_in: bool) {
        let bit = 1 << (ordinal % 64);
        if is_in {
            self.words[ordinal / 64] |= bit;
        } else {
            self.words[ordinal / 64] &= !bit;
        }
    }

    /// Adds all of `others`, or takes them out.
    pub(crate) fn set_all(&mut self, others: &Self, are_in: bool) {
        for (word, other) in self.words.iter_mut().zip(others.words) {
            *word = if are_in { *word | other } else { *word & !other };
        }
    }

    pub(crate) fn ordinals(&self) -> impl Iterator<Item = usize> {
        (0..ORDINAL_COUNT).filter(|&ordinal| self.has(ordinal))
    }
}

/// A category of commands.
pub(crate) struct Category {
    pub(crate) name: &'static str,
    flag: Categories,
    /// Its commands and subcommands.
    members: CommandSet,
    /// What `+@name` allows: the members, and the subcommands of containers among them.
    pub(crate) granted: CommandSet,
}

/// All categories, in the order of ACL CAT.
pub(crate) static CATEGORIES: LazyLock<Vec<Category>> = LazyLock::new(|| {
    let all = every_command().fold(Categories::NONE, |all, command| all.with(command.categories()));
    all.names()
        .filter_map(|name| Some(category(name, Categories::by_name(name.as_bytes())?)))
        .collect()
});

fn category(name: &'static str, flag: Categories) -> Category {
    let (mut members, mut granted) = (CommandSet::EMPTY, CommandSet::EMPTY);
    for command in every_command().filter(|command| command.categories().has(flag)) {
        members.set(command.ordinal(), true);
        granted.set(command.ordinal(), true);
        command.known_subcommands().for_each(|sub| granted.set(sub.ordinal(), true));
    }
    Category { name, flag, members, granted }
}

/// Every command and subcommand of the table, served or not.
fn every_command() -> impl Iterator<Item = Command> {
    (0..ORDINAL_COUNT).filter_map(Command::at)
}

/// The category of this name, in any case of letters.
pub(crate) fn category_called(name: &[u8]) -> Option<&'static Category> {
    CATEGORIES.iter().find(|category| category.name.as_bytes().eq_ignore_ascii_case(name))
}

/// The names of all categories, in the order of ACL CAT.
pub fn categories() -> impl Iterator<Item = &'static str> {
    CATEGORIES.iter().map(|category| category.name)
}

/// The commands and subcommands that are served and in the category called `name`, or nothing if there is no such category.
#[must_use]
pub fn members(name: &[u8]) -> Option<Vec<Command>> {
    let category = category_called(name)?;
    debug_assert!(category.members.ordinals().all(|ordinal| {
        Command::at(ordinal).is_some_and(|command| command.categories().has(category.flag))
    }));
    let members = category.members.ordinals().filter_map(Command::at);
    Some(members.filter(|command| command.served).collect())
}
