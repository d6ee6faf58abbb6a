//! What is fuzzed: everything that reads bytes from outside, with what must hold of it.
//!
//! ```text
//!   fuzz/fuzz_targets/NAME.rs ──► cargo fuzz run NAME (nightly)  ─┐
//!   tests/it: fuzz/corpus/NAME and mutations of it (stable)      ─┴─► TARGETS: NAME → run(bytes)
//!   examples/write_seeds: what cargo-fuzz begins with                             seeds()
//! ```
//!
//! A target is a function of bytes that panics when a promise is broken: no input makes a decoder
//! panic, hang, or allocate more than [`Target::allocation_max`]; what was accepted means the same
//! after it was written and read again; a stream means the same in one piece and in many.
//!
//! Most of what is on disk has checksums that no fuzzer guesses. So the targets put the right ones
//! into their input first ([`checksums`]): what is tried is what a checksum does *not* protect from.
//! That flips are noticed is for the tests of `redo`.
//!
//! # A new target
//! A file here, an entry in [`TARGETS`], three lines in `fuzz/fuzz_targets`, its name in
//! `fuzz/Cargo.toml`, and a directory in `fuzz/corpus`.

mod acl_decisions;
mod acl_rules;
mod aof_directory;
mod archive_object;
mod block;
mod changes;
mod checksums;
mod commands;
mod compaction;
mod config;
mod footer;
mod functions;
mod log_directory;
mod log_index;
mod log_page;
mod manifest;
mod page;
mod page_store;
mod payload;
mod rdb_file;
mod record;
mod replay;
mod requests;
mod script_values;
mod segment;
mod session;
mod survivors;
mod tap_conversations;
mod tap_log;
mod tap_packets;
mod transfer_frames;

/// Something that reads bytes.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// What it is called in `fuzz/`.
    pub name: &'static str,
    /// Reads the bytes.
    ///
    /// # Panics
    /// When a promise is broken.
    pub run: fn(&[u8]),
    /// Inputs to begin with.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// What a run may allocate whatever its input.
    fixed_bytes: u64,
    /// What it may allocate for each byte of it.
    bytes_per_byte: u64,
}

impl Target {
    /// How much may be allocated, in all, while `input_bytes` bytes are read.
    #[must_use]
    pub const fn allocation_max(&self, input_bytes: u64) -> u64 {
        self.fixed_bytes + self.bytes_per_byte * input_bytes
    }

    /// The target of this name.
    #[must_use]
    pub fn by_name(name: &str) -> Option<&'static Self> {
        TARGETS.iter().find(|target| target.name == name)
    }
}

/// Every target.
pub const TARGETS: &[Target] = &[
    Target {
        name: "requests",
        run: requests::run,
        seeds: requests::seeds,
        fixed_bytes: 16 << 10,
        // Three readings, an argument of one byte as a vector of its own.
        bytes_per_byte: 512,
    },
    Target {
        name: "commands",
        run: commands::run,
        seeds: commands::seeds,
        // Strings of 64 KiB, made and copied again and again.
        fixed_bytes: 256 << 20,
        bytes_per_byte: 64 << 10,
    },
    Target {
        name: "payload",
        run: payload::run,
        seeds: payload::seeds,
        fixed_bytes: 1 << 20,
        // LZF makes 88 bytes of one, and of each two an element of a list.
        bytes_per_byte: 88 * 512,
    },
    Target {
        name: "rdb_file",
        run: rdb_file::run,
        seeds: rdb_file::seeds,
        // Windows of three readers and what a writer gathers.
        fixed_bytes: 4 << 20,
        // As of payloads, several times.
        bytes_per_byte: 88 * 512,
    },
    Target {
        name: "aof_directory",
        run: aof_directory::run,
        seeds: aof_directory::seeds,
        // As of commands; two passes, each with a buffer for each of a few files.
        fixed_bytes: 256 << 20,
        bytes_per_byte: 128 << 10,
    },
    Target {
        name: "acl_rules",
        run: acl_rules::run,
        seeds: acl_rules::seeds,
        fixed_bytes: 16 << 20,
        // A selector of two bytes has a bit for each command, and its line may name each of them; written some 50 times.
        bytes_per_byte: 1 << 20,
    },
    Target {
        name: "acl_decisions",
        run: acl_decisions::run,
        seeds: acl_decisions::seeds,
        // Some 20 words in 38 calls of four users, each call with its keys; lines as of rules.
        fixed_bytes: 64 << 20,
        bytes_per_byte: 1 << 20,
    },
    Target {
        name: "archive_object",
        run: archive_object::run,
        seeds: archive_object::seeds,
        // Read eight times, each with a window.
        fixed_bytes: 1 << 20,
        bytes_per_byte: 256,
    },
    Target {
        name: "changes",
        run: changes::run,
        seeds: changes::seeds,
        fixed_bytes: 1 << 20,
        // An empty element of two bytes as a value of a JSON tree, next to its text.
        bytes_per_byte: 1 << 10,
    },
    Target {
        name: "config",
        run: config::run,
        seeds: config::seeds,
        fixed_bytes: 8 << 20,
        bytes_per_byte: 1 << 10,
    },
    Target {
        name: "script_values",
        run: script_values::run,
        seeds: script_values::seeds,
        // The state of Lua, and what a script allocates until it is refused more.
        fixed_bytes: 64 << 20,
        // An empty element of one byte as a table, several times; a capture for each byte.
        bytes_per_byte: 16 << 10,
    },
    Target {
        name: "functions",
        run: functions::run,
        seeds: functions::seeds,
        // Two states of Lua, and what libraries and functions allocate until they are refused more.
        fixed_bytes: 256 << 20,
        // LZF makes 88 bytes of one; a source is kept several times.
        bytes_per_byte: 64 << 10,
    },
    Target {
        name: "tap_conversations",
        run: tap_conversations::run,
        seeds: tap_conversations::seeds,
        // A prepared statement may have 65,535 parameters, and is named with a bit for each.
        fixed_bytes: 1 << 20,
        bytes_per_byte: 16 << 10,
    },
    Target {
        name: "tap_log",
        run: tap_log::run,
        seeds: tap_log::seeds,
        // A batch behind damage is searched for a mebibyte at a time.
        fixed_bytes: 8 << 20,
        bytes_per_byte: 1024,
    },
    Target {
        name: "tap_packets",
        run: tap_packets::run,
        seeds: tap_packets::seeds,
        fixed_bytes: 1 << 20,
        bytes_per_byte: 256,
    },
    Target {
        name: "transfer_frames",
        run: transfer_frames::run,
        seeds: transfer_frames::seeds,
        // A head and a body of the largest frame, announced and not there.
        fixed_bytes: 4 << 20,
        bytes_per_byte: 256,
    },
    Target {
        name: "record",
        run: record::run,
        seeds: record::seeds,
        fixed_bytes: 1 << 10,
        bytes_per_byte: 64,
    },
    Target {
        name: "replay",
        run: replay::run,
        seeds: replay::seeds,
        // Strings of 64 KiB together, each copied 25 times.
        fixed_bytes: 2 << 20,
        bytes_per_byte: 8 << 10,
    },
    Target {
        name: "block",
        run: block::run,
        seeds: block::seeds,
        fixed_bytes: 1 << 10,
        bytes_per_byte: 0,
    },
    Target {
        name: "survivors",
        run: survivors::run,
        seeds: survivors::seeds,
        // A bit for each of 65,535 ordinals, twice.
        fixed_bytes: 64 << 10,
        bytes_per_byte: 16,
    },
    Target {
        name: "footer",
        run: footer::run,
        seeds: footer::seeds,
        // A bit for each of a million records, twice.
        fixed_bytes: 1 << 20,
        bytes_per_byte: 64,
    },
    Target {
        name: "manifest",
        run: manifest::run,
        seeds: manifest::seeds,
        fixed_bytes: 4 << 10,
        bytes_per_byte: 64,
    },
    Target {
        name: "segment",
        run: segment::run,
        seeds: segment::seeds,
        fixed_bytes: 64 << 20,
        bytes_per_byte: 8 << 10,
    },
    Target {
        name: "compaction",
        run: compaction::run,
        seeds: compaction::seeds,
        fixed_bytes: 64 << 20,
        bytes_per_byte: 8 << 10,
    },
    Target {
        name: "log_index",
        run: log_index::run,
        seeds: log_index::seeds,
        // A run of two kilobytes, written, damaged, and read several times.
        fixed_bytes: 8 << 20,
        bytes_per_byte: 1 << 10,
    },
    Target {
        name: "page",
        run: page::run,
        seeds: page::seeds,
        // A few copies of a page, and the lists of what is in it.
        fixed_bytes: 128 << 10,
        bytes_per_byte: 64,
    },
    Target {
        name: "log_page",
        run: log_page::run,
        seeds: log_page::seeds,
        fixed_bytes: 64 << 10,
        bytes_per_byte: 64,
    },
    Target {
        name: "page_store",
        run: page_store::run,
        seeds: page_store::seeds,
        // The files of the store, several times, and what is read of them.
        fixed_bytes: 64 << 20,
        bytes_per_byte: 0,
    },
];
