//! What turns the crates into a server.
//!
//! ```text
//!   config    redis.conf, CONFIG GET and SET                        what the user wants
//!   engine    clients, dispatch, transactions, blocking, pub/sub    a step machine: no sockets, no threads
//!   reactor   TCP and unix sockets, one event loop                  drives the engine
//!   front     sockets in I/O threads; `mailbox`, `stream`, `transport` and `handshakes` are what they and the reactor share
//!   tls       certificates out of files, and sessions over sockets
//!   owned_log the redo log as its shard owns it                     and the log's threads
//!   load      recovery into a keyspace; `log_start` chooses how, and starts the log's threads
//!   save      dumps as RDB, written next to the executor
//!   migrate   MIGRATE's conversation with the other server, next to the executor
//!   tail      the change stream: blocks of the log as lines, for clients that ask
//!   listen    listening sockets; `network` is what the engine sees of them
//!   process   directory, pid file, signals, supervisor
//!   start     recovery, then the event loop                         puts it together
//!   import    files of a Redis server, as the log of a new data directory
//!   rebuild   the log's index, built while no server runs
//!   export    the data of a log that no server has open, as RDB
//!   error     why a server could not start or had to stop
//!   logger    messages for the operator; `crash` has what a panic leaves there
//!   host      memory and processor time
//!   admin_desk  the admin page's questions, on their way to the executor
//! ```
//!
//! The engine and everything below it see the world through `env` and can be driven by a
//! simulation; only `reactor`, `front`, the threads of `owned_log`, `archive_threads`, `verify_thread` and `migrate`, and `start` touch sockets, threads and signals.

mod admin_desk;
pub mod archive_threads;
pub mod config;
mod courtesy;
mod crash;
mod descriptors;
pub mod engine;
mod error;
pub mod export;
mod file_bytes;
mod front;
mod handshakes;
pub mod host;
pub mod import;
mod index_thread;
mod listen;
pub mod load;
mod loader;
mod log_start;
pub mod logger;
mod mailbox;
pub mod migrate;
pub mod network;
pub mod owned_log;
mod process;
mod reactor;
mod rebuild;
pub mod restore;
pub mod save;
mod start;
mod stream;
pub mod tail;
pub mod tls;
mod to_import;
mod transport;
pub mod verify_thread;

pub use engine::REDIS_VERSION;
pub use error::ServeError;
pub use owned_log::start_without_index as start_log;
pub use rebuild::{Rebuilding, rebuild_index};
pub use start::{World, log_wrong_configuration, serve};

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");
