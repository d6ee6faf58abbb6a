//! Whose blocks a log has: its own, and up to where it was branched off those of another one.

use base::Lsn;

use crate::Id;
use crate::format::manifest::Parent;

/// See the file's top.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The database that the log is of.
    pub database: Id,
    /// What it was made of by a restore; `None` if nothing.
    pub parent: Option<Parent>,
}

impl Origin {
    /// Whether the blocks up to `lsn` of that database's log are those of this one.
    #[must_use]
    pub fn has(&self, database: Id, lsn: Lsn) -> bool {
        let is_parents = |parent: Parent| (database, lsn) == (parent.database, lsn.min(parent.lsn));
        database == self.database || self.parent.is_some_and(is_parents)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_has_the_blocks_before_it() {
        let [mine, parents, another] = [1, 2, 3].map(|byte| Id([byte; 16]));
        let parent = Some(Parent { database: parents, lsn: Lsn(9) });
        let origin = Origin { database: mine, parent };
        let has = |database, lsn| origin.has(database, Lsn(lsn));
        assert!(has(mine, 1) && has(mine, 1000));
        assert!(has(parents, 9) && !has(parents, 10));
        assert!(!has(another, 1));
        assert!(!Origin { parent: None, ..origin }.has(parents, Lsn(1)));
        assert_eq!(mine.to_string().parse(), Ok(mine));
        for text in ["", "1", &"é".repeat(16), &"+1".repeat(16), &"0".repeat(33)] {
            assert!(text.parse::<Id>().is_err(), "{text}");
        }
    }
}
