//! The rules as data: order of the crates, limits of a file, names that say nothing, homes of `unsafe`.

/// A crate of the workspace and the crates of ours that it may depend on.
pub(super) struct Place {
    /// Name of the crate.
    pub(super) name: &'static str,
    /// What its code may use.
    pub(super) may_use: &'static [&'static str],
    /// What its tests may use besides.
    pub(super) tests_may_use: &'static [&'static str],
}

/// The crates from the bottom to the top, as in the table of ARCHITECTURE.md. `keyspace`, `redo`,
/// `logindex`, `pages`, `snapshot` and `resp` are siblings: `server` connects them through traits.
pub(super) const ORDER: &[Place] = &[
    Place { name: "base", may_use: &[], tests_may_use: &[] },
    Place { name: "env", may_use: &[], tests_may_use: &[] },
    Place { name: "env-os", may_use: &["env"], tests_may_use: &[] },
    Place { name: "env-sim", may_use: &["env"], tests_may_use: &["env-os"] },
    Place { name: "resp", may_use: &[], tests_may_use: &[] },
    Place { name: "rdb", may_use: &["resp"], tests_may_use: &[] },
    Place { name: "keyspace", may_use: &["base"], tests_may_use: &[] },
    Place { name: "redo", may_use: &["base", "env"], tests_may_use: &["env-os", "env-sim"] },
    Place { name: "logindex", may_use: &["base", "env"], tests_may_use: &["env-os", "env-sim"] },
    Place {
        name: "indexing",
        may_use: &["base", "env", "keyspace", "redo", "logindex"],
        tests_may_use: &["env-sim"],
    },
    Place {
        name: "dump",
        may_use: &["base", "env", "rdb", "keyspace", "redo"],
        tests_may_use: &["env-sim"],
    },
    Place {
        name: "archive",
        may_use: &["base", "env", "keyspace", "redo"],
        tests_may_use: &["env-sim"],
    },
    Place { name: "bucket", may_use: &["redo", "archive"], tests_may_use: &["base"] },
    Place { name: "changes", may_use: &["base", "keyspace"], tests_may_use: &[] },
    Place { name: "pages", may_use: &["base", "env", "env-os"], tests_may_use: &["env-sim"] },
    Place { name: "snapshot", may_use: &["base", "env"], tests_may_use: &["env-os", "env-sim"] },
    Place { name: "transfer", may_use: &["base", "env", "env-os"], tests_may_use: &["env-sim"] },
    Place { name: "scripting", may_use: &["resp"], tests_may_use: &[] },
    Place { name: "command-spec", may_use: &[], tests_may_use: &[] },
    Place { name: "acl", may_use: &["base", "resp", "command-spec"], tests_may_use: &["testing"] },
    Place {
        name: "command",
        may_use: &["base", "resp", "rdb", "keyspace", "command-spec"],
        tests_may_use: &[],
    },
    Place { name: "admin", may_use: &[], tests_may_use: &["testing"] },
    Place {
        name: "tap",
        may_use: &["base", "env", "resp", "command-spec"],
        tests_may_use: &["env-os", "env-sim", "testing"],
    },
    Place {
        name: "server",
        may_use: &[
            "base",
            "env",
            "resp",
            "rdb",
            "keyspace",
            "redo",
            "logindex",
            "indexing",
            "dump",
            "archive",
            "changes",
            "acl",
            "command",
            "scripting",
            "admin",
        ],
        tests_may_use: &["env-os", "env-sim"],
    },
    Place {
        name: "bench",
        may_use: &[
            "base", "env", "env-os", "keyspace", "redo", "indexing", "pages", "snapshot", "server",
        ],
        tests_may_use: &["env-sim", "testing"],
    },
    Place {
        name: "cli",
        may_use: &[
            "env", "env-os", "rdb", "redo", "logindex", "indexing", "archive", "bucket",
            "transfer", "tap", "server",
        ],
        tests_may_use: &["env-sim", "testing"],
    },
    Place {
        name: "sim",
        may_use: &[
            "base", "env", "env-sim", "rdb", "keyspace", "redo", "logindex", "indexing", "archive",
            "server",
        ],
        tests_may_use: &[],
    },
    Place {
        name: "fuzz-targets",
        may_use: &[
            "acl",
            "base",
            "env",
            "env-sim",
            "resp",
            "rdb",
            "keyspace",
            "redo",
            "logindex",
            "archive",
            "changes",
            "pages",
            "transfer",
            "scripting",
            "command",
            "tap",
            "server",
        ],
        tests_may_use: &[],
    },
    Place { name: "testing", may_use: &[], tests_may_use: &[] },
    Place { name: "xtask", may_use: &[], tests_may_use: &[] },
];

/// Lines without tests past which a file is probably two files.
pub(super) const LINES_WARNING: usize = 600;

/// Lines without tests past which a file certainly is two files.
pub(super) const LINES_ERROR: usize = 1000;

/// Fields past which a type is probably two types.
pub(super) const FIELDS_MAX: usize = 25;

/// Lines of `impl`, over all files of its crate, past which a type is probably two types.
pub(super) const IMPL_LINES_MAX: usize = 1200;

/// A type that may be larger.
pub(super) struct LargeType {
    /// The folder of its crate.
    pub(super) krate: &'static str,
    /// Its name.
    pub(super) name: &'static str,
    /// Why it may, and until when.
    #[expect(dead_code, reason = "for readers of this file")]
    pub(super) reason: &'static str,
}

/// The exceptions to both limits.
pub(super) const LARGE_TYPES: &[LargeType] = &[
    LargeType {
        krate: "server",
        name: "Engine",
        reason: "where sessions, shard and configuration meet; what needs one of them is theirs",
    },
    LargeType {
        krate: "keyspace",
        name: "Keyspace",
        reason: "the only way to the data: one file of methods for each type and each job",
    },
];

/// Crates that are programs or tools: what goes wrong there is told to a person at once.
pub(super) const PROGRAMS: &[&str] = &["cli", "bench", "sim", "xtask", "fuzz-targets"];

/// A file of a library that may have a `String` as an error.
pub(super) struct StringError {
    /// The file.
    pub(super) file: &'static str,
    /// Why it may, and until when.
    #[expect(dead_code, reason = "for readers of this file")]
    pub(super) reason: &'static str,
}

/// The exceptions to the rule that errors are types.
pub(super) const STRING_ERRORS: &[StringError] = &[
    StringError {
        file: "crates/pages/src/log_page.rs",
        reason: "what is wrong with a group of records: the text of an error's variant Corrupt",
    },
    StringError {
        file: "crates/pages/src/log_reader.rs",
        reason: "as in log_page.rs, from the function that visits a group",
    },
    StringError {
        file: "crates/transfer/src/data_verifier.rs",
        reason: "why a page cannot be read again: a part of a line of the report",
    },
];

/// The order of a crate's folders: its top modules in layers, the lowest first.
pub(super) struct FolderOrder {
    /// The folder of the crate.
    pub(super) krate: &'static str,
    /// A module imports from lower layers only, and every module has a place.
    pub(super) layers: &'static [&'static [&'static str]],
}

/// The crates whose folders have an order.
///
/// To switch one on, give every top module of the crate a layer and run `cargo xtask lint`.
pub(super) const FOLDERS: &[FolderOrder] = &[
    FolderOrder { krate: "command-spec", layers: &[&["spec"], &["table"], &["keys", "names"]] },
    FolderOrder { krate: "resp", layers: &[&["number", "pieces", "words"], &["parse", "writer"]] },
    FolderOrder {
        krate: "rdb",
        layers: &[
            &["crc64", "lzf", "version"],
            &["error"],
            &["packed"],
            &["stream"],
            &["event"],
            &["digest", "form", "input"],
            &["skip", "strings", "template"],
            &["value", "writer"],
            &["decode", "payload", "reader"],
            &["functions"],
        ],
    },
    FolderOrder {
        krate: "tap",
        layers: &[
            &["entry"],
            &["error", "protocol"],
            &["log", "reassembly", "replay"],
            &["capture"],
            &["sidecar"],
        ],
    },
    FolderOrder {
        krate: "server",
        layers: &[
            &["config", "courtesy", "descriptors", "file_bytes", "host", "logger", "stream"],
            &["tls"],
            &["crash", "mailbox", "network", "process", "transport"],
            &["admin_desk", "archive_threads", "verify_thread", "migrate", "save", "tail"],
            &["engine", "listen"],
            &["handshakes", "index_thread"],
            &["owned_log"],
            &["restore"],
            &["load", "loader"],
            &["import"],
            &["error", "front"],
            &["reactor"],
            &["export", "log_start", "rebuild", "to_import"],
            &["start"],
        ],
    },
    FolderOrder {
        krate: "bench",
        layers: &[
            &["error", "histogram", "process_count", "zipf"],
            &["json", "plot"],
            &["flash", "snapshot"],
            &["engine", "snapshot_transactions"],
            &["client", "figures", "kv", "locks", "recovery", "tpcc", "vtc"],
            &["compare"],
            &["bin"],
        ],
    },
    FolderOrder {
        krate: "redo",
        layers: &[
            &["block_time", "id", "options"],
            &["error"],
            &["format"],
            &["origin", "shared"],
            &["read"],
            &["compact"],
            &["mark", "recover"],
            &["inspect"],
            &["repair"],
            &["write"],
            &["restore"],
        ],
    },
];

/// Words that name no actor or sound translated; matched as whole words in any case. `whose` is not
/// among them, because of things it is good English.
pub(super) const WORDS: &[&str] = &[
    "who",
    "whoever",
    "whom",
    "whomever",
    "somebody",
    "nobody",
    "everybody",
    "beside",
    "comes to nothing",
    "come to nothing",
    "came to nothing",
    "is to be had",
    "was to be had",
    "are to be had",
    "to be had",
];

/// Names that say nothing of a file's job.
pub(super) const EMPTY_NAMES: &[&str] =
    &["utils", "util", "common", "helpers", "helper", "manager", "misc"];

/// Files that may hold `unsafe`, each with a reason in its own essay.
pub(super) const UNSAFE_FILES: &[&str] = &[
    "crates/bench/src/engine/bdb.rs",
    "crates/bench/src/engine/lmdb.rs",
    "crates/cli/src/allocator.rs",
    "crates/cli/tests/it/shutdown_ioctl.rs",
    "crates/env-os/src/child.rs",
    "crates/env-os/src/large_pages.rs",
    "crates/env-os/src/residency.rs",
    "crates/env-os/src/ring.rs",
    "crates/keyspace/src/element.rs",
    "crates/keyspace/src/entry.rs",
    "crates/keyspace/src/zset/large.rs",
    "crates/scripting/src/coroutine.rs",
    "crates/scripting/src/entry.rs",
    "crates/scripting/src/frame.rs",
    "crates/scripting/src/heap.rs",
    "crates/scripting/src/machine.rs",
    "crates/snapshot/src/cells.rs",
    "crates/snapshot/src/fork.rs",
    "crates/tap/src/capture/ring.rs",
];
