//! The log as its users see it: what was acknowledged is there after whatever happens.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod behind;
mod bounded_history;
mod by_address;
mod compaction;
mod corruption;
mod costs;
mod crash;
mod crowded;
mod devices;
mod failing;
mod format;
mod format_history;
mod giving_way;
mod harness;
mod held;
mod history;
mod inspection;
mod keeping;
mod lifecycle;
mod marks;
mod named;
mod objects;
mod opening;
mod over_zeros;
mod racing;
mod reading;
mod repaired_backups;
mod repairing;
mod restoring;
mod rewinding;
mod scrubbing;
mod simulation;
mod sweep;
mod waiting;
