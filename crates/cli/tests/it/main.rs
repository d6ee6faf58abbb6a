//! Tests of the whole program: real processes, real sockets, real files.
//!
//! ```text
//!   conformance ── script ─┐                      the same commands to redis-server and to Indelible
//!   random_commands ───────┼─ wire ── process     a RESP client · server processes on free ports
//!   random_grammar ────────┤                      every command that both have · what may differ (differences)
//!   every_command ─────────┼─ grammar, extremes   every command on every encoding, within time and memory
//!   kill ── ledger ────────┤                      kill -9 and what must be there afterwards
//!   consumer_groups                               workers and the server die: nothing is lost or delivered again
//!   linearizability ── _models, _check            histories of many clients across kills and cuts
//!   power_cut ─┬─ loop_device ── shutdown_ioctl   disks that forget what was not synced,
//!   full_disk ─┘                                  disks without room
//!   io_errors ─┬─ fault_injection                 disks that fail
//!   overload ──┘                                  disks that are slow, and other things that are too much
//!   devices                                       log devices that come and go under load
//!   narrow_start                                  more keys than memory holds, and no index to start by
//!   cold_expiry                                   keys that expire while they are in the log only
//!   later_commands                                what redis-server lacks, while values leave memory
//!   object_ids                                    large objects over restarts
//!   backups                                       named backups, and which command has emptied what
//!   admin ── open_metrics                          the admin page: its token, and that its figures are INFO's
//!   acl                                           users, what they may do, and what their connections lose
//!   archive · archive_loss · _s3 · _transfer      a server killed and its data removed: what comes back from elsewhere
//!   full_disk_backups                             history, backups and archives on disks without room
//!   exit_codes                                    what backup, restore and view end with: damage, gaps, no log
//!   tls ── tls_client                             certificates, handshakes; and tests of connections, over TLS
//!   port_scan                                     which ports there are, and what they say to a stranger
//!   tracking                                      what clients are told that keep copies, next to Redis
//!   scripting                                     Lua scripts that run for long, and kills while they write
//!   hot_keys                                      what was used before a restart is in memory first
//!   over_zeros                                    segments that were zeros before
//!   lifecycle                                     one server on a unix socket, from start to end
//!   damage                                        damaged data directories: refused, repaired, served
//!   messages                                      what the server says, and where
//!   rdb_files · dumps · export                    files of Redis read and written; what the server saves, and what
//!                                                 is saved of one that does not run
//!   migrate                                       keys on their way to another server
//!   import                                        Redis' files as new data directories
//!   peer_round_trips ─┬─ peers                    Redis 6.2, 7.0 and 8.2: there and back
//!   peer_dumps ───────┤                           the dumps of Redis' own tests
//!   peer_readers ─────┘                           what others read in dumps that are written here
//!   change_stream ── change_consumer              what a consumer makes of the changes of a server, both of which die
//!   command_line                                  configuration and data directories that must be refused
//!   packaged_configuration                        the file that packages install
//!   ping · supervised                             what health checks and a supervisor are told
//!   stock_files · fail_closed                     what others' configuration files ask for
//!   transfer                                      files from process to process, either of which is killed
//!   transfer_device ── device_mount               files onto a mounted device that damages what it stores
//!   tap_capture ── tap_process ── network         requests recorded from networks, also broken ones
//!   tap_replay ─┬─ tap_recording                  a server brought back from a log; the log shown
//!   tap_inspect ┘
//! ```
//!
//! The comparisons need Debian's `redis-server`; without it they print that they were skipped (`make test`
//! installs it). Tests of disks need root and loop devices, or strace, tests of
//! networks need root, ip and nft, and say so where they are skipped.
//! `INDELIBLE_SERVER` names another command to test in place of the built binary, and `INDELIBLE_SEED`
//! another seed for what is random.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod acl;
mod admin;
mod archive;
mod archive_loss;
mod archive_s3;
mod archive_transfer;
mod backup_commands;
mod backups;
#[path = "../../../changes/tests/it/consumer.rs"]
mod change_consumer;
mod change_stream;
mod cold_expiry;
mod command_line;
mod compaction;
mod conformance;
mod connections;
mod consumer_groups;
mod damage;
mod descriptors;
mod device_mount;
mod devices;
mod differences;
mod doctor;
mod dumps;
mod durability;
mod every_command;
mod exit_codes;
mod expiring_fields;
mod export;
mod extremes;
mod fail_closed;
mod fault_injection;
mod format_1;
mod full_disk;
mod full_disk_backups;
mod functions;
mod grammar;
mod hard_links;
mod hot_keys;
mod import;
mod in_place;
mod instant_start;
mod io_errors;
mod io_threads;
mod kill;
mod larger_than_memory;
mod later_commands;
mod lcs;
mod ledger;
mod lifecycle;
mod linearizability;
mod linearizability_check;
mod linearizability_models;
mod listening;
mod log_get;
mod log_index;
mod log_switch;
mod loop_device;
mod lost_values;
mod messages;
mod migrate;
mod narrow_start;
mod network;
mod object_ids;
mod over_zeros;
mod overload;
mod packaged_configuration;
mod peer_dumps;
mod peer_readers;
mod peer_round_trips;
mod peers;
mod ping;
mod port_scan;
mod power_cut;
mod process;
mod random_commands;
mod random_grammar;
mod random_scripts;
mod rdb_files;
mod reload;
mod replaced_dumps;
mod reply_limits;
mod restore;
mod restore_expiry;
mod script;
mod scripting;
mod shutdown_ioctl;
mod stock_files;
mod streams;
mod supervised;
mod tap_capture;
mod tap_inspect;
mod tap_process;
mod tap_recording;
mod tap_replay;
mod tls;
mod tls_client;
mod tracking;
mod transfer;
mod transfer_device;
mod verify_backups;
mod view;
mod wire;

// What the tests of the admin page have.
#[path = "../../../admin/tests/it/open_metrics.rs"]
mod open_metrics;

// What the tests of buckets have.
#[path = "../../../bucket/tests/it/proxy.rs"]
mod proxy;
#[path = "../../../bucket/tests/it/store.rs"]
mod store;
