//! Users, and what each of them may do, as Redis 7.2 has them.
//!
//! ```text
//!   SETUSER alice on >secret %R~app:* +@read (~tmp:* +set)
//!             │        rules: the merge of what parentheses enclose
//!             ▼
//!   users   name → UserKey → User ── passwords, hashed
//!                              ├──── root selector      commands · keys · channels
//!                              └──── more selectors     one that allows all of a call is enough
//!             │
//!             ├── check(command, call) → allowed, or Denial: command, key or channel    decide
//!             ├── the line of ACL LIST, GETUSER, an aclfile                             describe
//!             └── an aclfile, read and written: all of it or nothing                    file
//!
//!   log     what was refused: a bounded list, the same within a minute counted together
//! ```
//!
//! Everything is pure: the caller reads files, knows the time and closes connections.
//!
//! A selector has a bit for every command and subcommand of [`command_spec::table`], also for those that
//! are not served: a file written for Redis names them. A rule sets bits. The rules that did it are kept, to be told as they
//! were given, but for those that a later one overrides: given again in their order they set the same bits.
//!
//! A connection keeps a [`UserKey`]: a number that is cheap to compare and stays the same while rules
//! change. The key of a deleted user is never that of another one, not even of one with the same name.
//!
//! Invariants:
//!
//! 1. The user `default` exists, with [`UserKey::DEFAULT`].
//! 2. SETUSER applies all of its rules or none; so does a file.
//! 3. [`Users::take_changed`] has every user that may have lost a right. Of others there is nothing to revoke.
//! 4. Only SHA-256 of a password is kept, and compared in a time that does not depend on it.
//! 5. A line of a user, applied to a new user, makes an equal one (tests/it/oracle.rs).
//! 6. Keys are those of [`command_spec::keys`]. What that cannot tell is a call that fails as wrong, before
//!    it has touched a key.

mod commands;
mod decide;
mod describe;
mod error;
mod file;
mod log;
mod password;
mod patterns;
mod rules;
mod selector;
mod user;
mod users;

pub use commands::{categories, members};
pub use decide::{ChannelUse, Denial};
pub use error::{DeclarationError, FileErrors, RuleError, SetUserError};
pub use file::Roster;
pub use log::{AclLog, Context, Entry, Event, REASON_COUNT, Reason};
pub use password::check_password;
pub use patterns::{ChannelDefault, KeyAccess};
pub use rules::is_valid_name;
pub use selector::Selector;
pub use user::User;
pub use users::{UserKey, Users};
