//! The whole server in one thread: virtual time, a disk that fails on purpose, and a judge.
//!
//! ```text
//!   clients ── RESP bytes ──► Engine ──► keyspace ── Wiretap ──► redo::Log
//!      ▲                        │                       │           │ blocks
//!      └─ replies: promises     │          which call wrote what    ▼
//!            │                  │                       │     Flushers, Compactor, index, stepped in
//!            ▼                  ▼                       ▼     random order ──► SimDisk
//!          Ledger: the state after every block, and what was promised
//!            ▲                                                       │ crash, EIO, kill …
//!            └── judges what the real recovery comes to ◄────────────┘
//! ```
//!
//! Everything between the sockets and the disk is the code that runs in production: the engine, the
//! keyspace, the log with its flushers and compactor, and the recovery as `server::load` wires it.
//! One seed decides everything, so the same seed is the same run, byte for byte.
//!
//! # What is judged
//! - **Prefix**: what a recovery comes to is the state after some block: whole commands and
//!   transactions in the order in which they were executed, and none in part. The state is compared
//!   entry by entry, expiries and expired keys among them, so nothing deleted or expired comes back.
//! - **Promises**: that prefix has everything that a client was told under `always`: replies of
//!   writes, and of reads that saw what was not durable yet (which block that is, the wiretap finds
//!   out for itself); what WAITAOF has confirmed; what `everysec` owes; everything after a shutdown
//!   in good order; and everything that an earlier recovery has shown.
//! - **A process that is killed** loses nothing that a client has read, whatever the policy.
//! - **Objects**: no large object gets the number of another one, in whatever life that was.
//! - **A lack of descriptors** is over when there are some: no device is given up for it.
//! - **One block a command**: the records of a command or transaction lie in one block. What one call of the
//!   engine executes may lie in several if a checkpoint stands between two commands; nothing else ends one.
//! - **A transaction is executed or it is not**: no command of one that is meets a key that cannot be
//!   read.
//! - **What is not logged does not happen**: the state changes only with a record. It is that of a
//!   second keyspace, to which every block is applied; and both retire the same records.
//! - **The index** of the log, which is kept in some lives of one run in four, says what is needed and
//!   nothing else (`index`), and so does a start that believes it (`behind`). What is read by its
//!   address is the record that was logged there (`addresses`).
//! - **The archive** has every block that was ever said to be in it: restored from it alone, each is the state after that
//!   block (`archives`), also where two servers write to it, each in its own branch (`rival`). What it does not have is refused
//!   (`refusals`). Of one whose machine lies nothing is passed off that is another state (`liar`).
//! - **Two recoveries** of copies of one disk come to the same.
//!
//! # Fault model
//! That of [`env_sim`]'s disk: crashes at any I/O with torn, lost and reordered writes and lost
//! names; death of the process; EIO from any call; syncs that fail and drop what was dirty; a full
//! disk; a device that dies; misdirected writes; short reads; no descriptor to open something with.
//! A backup gives the files other names, and nothing is changed in a file that has one. In addition,
//! here: a device so slow that its flusher hardly ever runs (`machine`), bits that turn in files at
//! rest (`damage`: the start must name the file, and go on when the bit is turned back; or it believes the
//! index all the same, and never shows another value) and below the running server (the scrubber may heal them), files that cannot always be read after a start by the
//! index, memory that is full, a wall clock that jumps both ways, clients that read slowly, leave,
//! send half a command, wait, and pipeline. After
//! misdirected writes the device has lied: a refusal to start or an earlier prefix is right then,
//! and any other state is not.
//!
//! # Files
//!
//! | what | where |
//! |---|---|
//! | a run of several lives, and recovery | `run`, `life`, `ending` |
//! | what a run with an index does besides | `indexed`, `switch` |
//! | the server, stepped | `machine`, `opening`, `works`, `wiretap` |
//! | a keyspace that follows the log | `shadow` |
//! | what clients send | `workload`, `client`, [`reply`] |
//! | the judge | `ledger`, `picture` |
//! | a backup by hard links | `backup` |
//! | the log as it was; what its archive has when nothing else is left; and what must be in it when it is thinned out | `past`, `archives`, `thinning` |
//! | the archive's machine, that fails, dies and lies; another server that writes there; what is refused | `far`, `liar`, `rival`, `refusals` |
//! | the log, set back in place | `set_back` |
//! | where what is needed is, and what the index says of it | `addresses`, `index` |
//! | another recovery of the same disk, as a whole or behind the index | `twin`, `behind` |
//! | crashes everywhere in short traces | [`script`] |
//! | crashes in the middle of scripts, in small worlds | `short` |
//! | running for minutes | [`soak`], [`tally`] |

mod addresses;
mod archives;
mod backup;
mod behind;
mod client;
mod damage;
mod ending;
mod far;
mod index;
mod indexed;
mod instant;
mod ledger;
mod liar;
mod life;
mod machine;
mod named;
mod opening;
mod past;
mod picture;
mod puts;
mod refusals;
pub mod reply;
mod rival;
mod run;
mod saves;
pub mod script;
mod set_back;
mod shadow;
mod short;
pub mod soak;
mod switch;
pub mod tally;
mod thinning;
mod twin;
mod wiretap;
mod workload;
mod works;

pub use index::has_index;
pub use run::{Outcome, Plan, Violation, run};
