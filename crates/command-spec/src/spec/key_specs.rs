//! Where the keys of a call are: a step that begins the search, a step that finds the keys.

use super::KeyFlags;

/// One place where a command has keys.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// How to find the argument to start from.
    pub begin: BeginSearch,
    /// Which arguments from there are keys.
    pub find: FindKeys,
    /// What happens to them.
    pub flags: KeyFlags,
    /// What else is to be known, if there is anything. Redis' own words.
    pub notes: &'static str,
}

/// The first step of a key spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BeginSearch {
    /// At this position.
    Index(i32),
    /// After this word; the search goes forward from `start_from`, or backward if it is negative.
    Keyword {
        /// The word, in any case.
        keyword: &'static str,
        /// Where to start; negative positions count from the end.
        start_from: i32,
    },
    /// Cannot be described.
    Unknown,
}

/// The second step of a key spec.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindKeys {
    /// Every `step`th argument up to `last`.
    Range {
        /// The last one, relative to the first, or to the end of the arguments if it is negative.
        last: i32,
        /// The distance from one key to the next.
        step: i32,
        /// With `last` -1: the arguments are cut into so many parts and the first one is used.
        limit: i32,
    },
    /// As many as a number among the arguments says; positions are relative to the begin.
    KeyNum {
        /// Where the number is.
        count_index: i32,
        /// Where the first key is.
        first_key: i32,
        /// The distance from one key to the next.
        step: i32,
    },
    /// Cannot be described.
    Unknown,
}

impl KeySpec {
    /// The argument at `index` and nothing else.
    #[must_use]
    pub const fn one(index: i32, flags: KeyFlags) -> Self {
        Self::range(index, 0, 1, flags)
    }

    /// Every `step`th argument from `first` to `last`, which is relative to `first` or, when
    /// negative, to the end.
    #[must_use]
    pub const fn range(first: i32, last: i32, step: i32, flags: KeyFlags) -> Self {
        Self {
            begin: BeginSearch::Index(first),
            find: FindKeys::Range { last, step, limit: 0 },
            flags,
            notes: "",
        }
    }

    /// A number at `index` and then as many keys.
    #[must_use]
    pub const fn counted(index: i32, flags: KeyFlags) -> Self {
        Self {
            begin: BeginSearch::Index(index),
            find: FindKeys::KeyNum { count_index: 0, first_key: 1, step: 1 },
            flags,
            notes: "",
        }
    }

    /// The same with notes.
    #[must_use]
    pub const fn noted(self, notes: &'static str) -> Self {
        Self { notes, ..self }
    }

    /// Keys that only the command's own function finds.
    #[must_use]
    pub const fn unknown(flags: KeyFlags) -> Self {
        Self { begin: BeginSearch::Unknown, find: FindKeys::Unknown, flags, notes: "" }
    }
}
