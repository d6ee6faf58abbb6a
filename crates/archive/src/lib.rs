//! The redo log, kept elsewhere while it is written, and made a log again as it was after any block.
//!
//! ```text
//!   redo::Mark N ─► everything valid at N ─► base objects, and one that says they are all   ┐ a target:
//!                                                                                           │ a directory on
//!   redo::Blocks ─► N+1, N+2, N+3 … whole ─► log objects, each from its first block to its  │ another disk,
//!                                            last, every interval                           ┘ one day S3
//!                                                       │
//!            restore to X  ◄── base N, and then the blocks N+1 to X, in order ◄─────────────┘
//! ```
//!
//! The log is the database. So an archive of it needs no dumps, no deltas and no catalogue: a state that is known, and
//! every block behind it. *Restorable* is every block X for which there is a whole base N ≤ X and a run of log objects
//! without a gap from N + 1 to X; the names of the objects say so ([`Picture`]).
//!
//! **Objects** are written once, never changed, and check themselves: a header with a checksum, and blocks as the log has them, each
//! with its own two ([`Header`]). A name says what is in an object; there is no other list that could say something else.
//!
//! **The archiver** ([`Archiver`]) is a machine that a thread steps, or a simulator. It claims the archive, has a mark made and
//! copies what was valid then (a *fill*), and ships blocks as they become durable. The stream goes before the fill: a
//! fill can take long, because its mark keeps the files that it needs; blocks that wait may be compacted. If that happens there is a *gap*: the stream begins
//! again behind a new fill, and only the blocks in between cannot be restored. When the log behind a base has become larger than
//! the base, a new one is made, so that a restore reads at most about twice the data, however long ago the
//! archive began.
//!
//! **One writer.** A writer takes the next number by creating its *claim*, and looks after each object that it has written whether
//! a later one has come: then it is *fenced*, says so, and ends. Behind the first block of a writer no
//! object of an earlier one counts. A log that is not what the archive has (an old copy of the directory, a disk that lied) is
//! refused before it claims.
//!
//! # Files
//!
//! | file | what it is |
//! |---|---|
//! | `name` | names of objects: their grammar, and what they say |
//! | `key`, `frames` | keys; blocks compressed and encrypted |
//! | `object` | an object as bytes: written, and read with every check; `docs/format/archive.md` |
//! | `target`, `directory` | where objects are; a directory |
//! | `picture` | what a target has, by names alone |
//! | `piece` | what of it is known to be damaged |
//! | `archiver`, `claim`, `stream`, `fill`, `parts`, `gathered`, `texts`, `named`, `configurations`, `leftovers`, `readback`, `tidying`, `retry`, `lag` | the machine, and its parts |
//! | `keep`, `survey`, `plan`, `told`, `leaps`, `headers`, `entry`, `thinner`, `living`, `copier`, `making`, `tidier`, `tidy_claim` | which states are kept, what they need, and the machine that removes the rest |
//! | `desk`, `figures` | what the machine and its owner tell each other |
//! | `moments`, `spans` | blocks by time, and before a FLUSHALL; which there are |
//! | `restorer`, `verifier` | a log made of an archive; all of an archive read |
//!
//! # Invariants
//!
//! 1. No block is shipped that is not durable: a crash could take it back, and give its number to another one.
//! 2. What [`Figures::archived`] says is restorable, whatever becomes of the log: it is said after the object is durable
//!    at the target, and after it was seen that no later writer had begun.
//! 3. Nothing of the server waits for an archive: what cannot be shipped is a gap, which heals.
//! 4. Nothing that is read is believed: lengths are compared with what there is before memory is taken for them, names are
//!    parsed and never joined to a path unseen, every byte is under a checksum, and every record passes the check that a start makes.
//! 5. Thinning out removes nothing that a state which is kept needs, wherever it is cut off and whatever writes meanwhile.
//! 6. A restored log is a branch: a database with another id. It counts when all of it was read again, not before.
//! 7. What was found damaged stays known, across processes, and nothing goes because of it; nor because of what was not read to its end.
//! 8. An archive has everything that the database has, and without a key in clear; with one from its first object to its last, so that nothing in
//!    clear is taken for what was encrypted. Neither the seed of the hashes nor a password is in it.

mod archiver;
mod claim;
mod configurations;
mod copier;
mod desk;
mod directory;
mod entry;
mod error;
mod figures;
mod fill;
mod following;
mod frames;
mod gathered;
mod headers;
mod keep;
mod key;
mod lag;
mod leaps;
mod leftovers;
mod living;
mod making;
mod moments;
mod name;
mod named;
mod object;
mod parts;
mod picture;
mod piece;
mod plan;
mod readback;
mod restorer;
mod retry;
mod spans;
mod stream;
mod survey;
mod target;
mod texts;
mod thinner;
mod tidier;
mod tidy_claim;
mod tidying;
mod told;
mod verifier;

pub use archiver::{ArchiveStep, Archiver};
pub use desk::{ArchiveOptions, Desk, Ending, NamedBlock};
pub use directory::{Directory, directory_of};
pub use error::{Error, KeyError, Result, TargetError, TargetResult};
pub use figures::{Figures, State, TidyFigures, TidyState};
pub use following::{Followed, FollowedTo, follow};
pub use frames::{Compression, Encoding, encode};
pub use keep::{Every, Keep, NotRules};
pub use key::{KEY_BYTES, Key, KeyId, Keys};
pub use name::{Fill, Folder, Name, parse_database};
pub use named::{ArchivedBackup, ArchivedBackups, backups, forget};
pub use object::{Builder, HEADER_BYTES, Header, ObjectReader, StoredBlock};
pub use picture::{Chain, Picture, Range, Thinned};
pub use piece::Piece;
pub use plan::{KeptState, Why};
pub use restorer::{KEEP_BYTES, Point, Request, Restored, Restoring, database_of, restore};
pub use spans::{Overview, Span, overview};
pub use target::{Keyed, Object, Put, Readback, Target};
pub use tidier::{Tidied, Tidier, TidyOptions, TidyStep};
pub use verifier::{Verified, verify};
