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

/// The crates from the bottom to the top (ARCHITECTURE.md). `keyspace`, `redo`, `pages`, `snapshot`,
/// `rdb` and `resp` are siblings: what they have to say to one another goes through a trait that `server` connects.
pub(super) const ORDER: &[Place] = &[
    Place { name: "base", may_use: &[], tests_may_use: &[] },
    Place { name: "env", may_use: &[], tests_may_use: &[] },
    Place { name: "env-os", may_use: &["env"], tests_may_use: &[] },
    Place { name: "env-sim", may_use: &["env", "base"], tests_may_use: &["env-os"] },
    Place { name: "resp", may_use: &[], tests_may_use: &[] },
    Place { name: "keyspace", may_use: &["base"], tests_may_use: &[] },
    Place { name: "redo", may_use: &["base", "env"], tests_may_use: &["env-os", "env-sim"] },
    Place { name: "pages", may_use: &["base", "env", "env-os"], tests_may_use: &["env-sim"] },
    Place { name: "snapshot", may_use: &["base", "env"], tests_may_use: &["env-os", "env-sim"] },
    Place { name: "transfer", may_use: &["base", "env", "env-os"], tests_may_use: &["env-sim"] },
    Place { name: "rdb", may_use: &[], tests_may_use: &[] },
    Place { name: "command-spec", may_use: &[], tests_may_use: &[] },
    Place {
        name: "command",
        may_use: &["base", "keyspace", "rdb", "resp", "command-spec"],
        tests_may_use: &[],
    },
    Place {
        name: "server",
        may_use: &["base", "env", "env-os", "resp", "keyspace", "redo", "command"],
        tests_may_use: &["env-sim"],
    },
    Place {
        name: "tap",
        may_use: &["base", "env", "env-os", "resp", "command-spec"],
        tests_may_use: &["env-sim"],
    },
    Place {
        name: "bench",
        may_use: &["base", "env", "env-os", "pages", "snapshot"],
        tests_may_use: &["env-sim"],
    },
    Place {
        name: "cli",
        may_use: &[
            "base", "env", "env-os", "resp", "keyspace", "redo", "command", "server", "pages",
            "bench", "transfer", "tap",
        ],
        tests_may_use: &["env-sim"],
    },
    Place {
        name: "sim",
        may_use: &["base", "env", "env-sim", "keyspace", "redo", "server"],
        tests_may_use: &[],
    },
    Place {
        name: "fuzz-targets",
        may_use: &[
            "base", "env", "env-sim", "resp", "rdb", "keyspace", "redo", "command", "server",
            "pages", "transfer", "tap",
        ],
        tests_may_use: &[],
    },
    Place { name: "xtask", may_use: &[], tests_may_use: &[] },
];

/// Lines without tests past which a file is probably two files.
pub(super) const LINES_WARNING: usize = 600;

/// Lines without tests past which a file certainly is two files.
pub(super) const LINES_ERROR: usize = 1000;

/// Names that say nothing of a file's job.
pub(super) const EMPTY_NAMES: &[&str] =
    &["utils", "util", "common", "helpers", "helper", "manager", "misc"];

/// Files that may hold `unsafe`, each with a reason in its own essay.
pub(super) const UNSAFE_FILES: &[&str] = &[
    "crates/bench/src/engine/bdb.rs",
    "crates/bench/src/engine/lmdb.rs",
    "crates/cli/src/allocator.rs",
    "crates/cli/tests/it/shutdown_ioctl.rs",
    "crates/env-os/src/large_pages.rs",
    "crates/env-os/src/residency.rs",
    "crates/keyspace/src/element.rs",
    "crates/keyspace/src/entry.rs",
    "crates/snapshot/src/cells.rs",
    "crates/snapshot/src/fork.rs",
    "crates/tap/src/capture/ring.rs",
];
