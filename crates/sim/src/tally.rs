//! What was done and what was met, counted.

use std::fmt;

macro_rules! tally {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// See the file's top.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Tally {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Tally {
            /// Adds another one.
            pub const fn add(&mut self, other: &Self) {
                $(self.$name += other.$name;)*
            }

            /// Names and numbers.
            #[must_use]
            pub fn figures(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name)),*]
            }
        }
    };
}

tally! {
    /// Runs, each of one seed.
    seeds,
    /// Lives of a server, from its start to its end.
    lives,
    /// Starts by the index of the log.
    instant_starts,
    /// Those of keys that did not fit into memory: the index was built first.
    narrow_starts,
    /// Keys brought back while the executor waited.
    cold_fetches,
    /// Power failures, those in recoveries among them.
    crashes,
    /// Power failures in the middle of a recovery.
    crashes_in_recovery,
    /// Deaths of the process alone.
    kills,
    /// Ends in good order.
    shutdowns,
    /// Times that the data were loaded again in the same process.
    reloads,
    /// Times that memory was full and keys were evicted.
    evictions,
    /// Values that have left memory, and that came back.
    values_dropped,
    /// See `values_dropped`.
    keys_departed,
    /// See `values_dropped`.
    values_fetched,
    /// Entries that were added to streams of which memory had the end alone.
    added_to_ends,
    /// Keys that were deleted because they had expired while they were in the log only.
    cold_expired,
    /// Keys and values that were asked for and fetched together with others.
    read_together,
    /// Commands sent.
    commands,
    /// Times that something was sent while the server slept, or writers had to wait.
    postponed,
    /// Replies read.
    replies,
    /// Replies that promised something.
    promises,
    /// Records written to the log.
    records,
    /// Blocks recovered and compared.
    blocks,
    /// Whole blocks that were cut off because one before them was missing.
    cut_blocks,
    /// Compactions that came to their end.
    compactions,
    /// Jumps of the wall clock.
    clock_jumps,
    /// Lives with EIO from any call.
    lives_with_io_errors,
    /// Lives after a start by the index in which calls that only read fail.
    lives_with_failing_reads,
    /// Lives in which syncs fail and drop what was dirty.
    lives_with_failing_syncs,
    /// Lives in which the disk was full for a while.
    lives_with_full_disk,
    /// Lives in which a device died.
    lives_with_dying_device,
    /// Lives in which a device was slow.
    lives_with_slow_device,
    /// Lives in which there was often no descriptor to open something with.
    lives_without_descriptors,
    /// Lives in which writes went to the wrong place.
    lives_with_misdirected_writes,
    /// Times that the files were copied by hard links.
    backups,
    /// Blocks that the executor has written itself.
    blocks_written_now,
    /// Steps that have written zeros ahead of the log, or begun or ended that.
    zeros_steps,
    /// Recoveries that EIO has interrupted.
    recoveries_with_io_errors,
    /// Times that `indelible log verify` was asked first and had to agree.
    verifications,
    /// Bits turned in files at rest.
    bits_flipped,
    /// Those that the start has found, naming the file.
    flips_detected,
    /// Those that do no harm: in the newest segment's footer, which is written again; in a file
    /// that is no longer needed; or healed while the server ran.
    flips_unnoticed,
    /// Those over which a start has believed the index.
    starts_over_damage,
    /// Bits turned in segments while the server ran.
    decays,
    /// Damage that the scrubber has found and the engine healed from memory.
    decays_healed,
    /// Lives that ended with values that were lost to damage.
    lives_with_lost_values,
    /// Lives in which an index of the log was kept.
    lives_with_index,
    /// Cuts of the log that an index has installed.
    index_cuts,
    /// Times that an index was followed to the end of the log and compared with it.
    index_comparisons,
    /// Entries that were compared so.
    index_entries,
    /// Indexes that were begun anew while the server ran.
    indexes_begun_anew,
    /// Indexes that were given up because their disk failed.
    indexes_given_up,
    /// Hints of what is hot that were written.
    hints_saved,
    /// Starts that had a hint of records that were hot.
    hints_used,
    /// Starts whose hint was damaged, or could not be read.
    hints_of_no_use,
    /// Keys that have come because they were hot.
    hot_keys,
    /// Bits turned in files of an index.
    index_decays,
    /// Records read by their addresses.
    records_by_address,
    /// Scripts in whose middle the power has failed, and of which nothing was there then; or all.
    scripts_absent,
    /// See `scripts_absent`.
    scripts_whole,
    /// Dumps that were completed, each compared with the data at its mark.
    dumps,
    /// Keys in them.
    dumped_keys,
    /// Those that have spilled.
    spilled_dumps,
    /// Dumps that were merged with the one before, and what they have copied of it.
    merged_dumps,
    /// See `merged_dumps`.
    copied_bytes,
    /// Dumps that have failed.
    dumps_failed,
    /// States of the past that were restored and compared.
    restored,
    /// Those below the history floor, before FLUSHALL and its like.
    restored_points,
    /// Replies to commands that make or delete a named backup.
    backups_asked,
    /// Named backups that were restored and compared.
    restored_backups,
    /// States that were restored from an archive alone, and compared.
    archived_restored,
    /// Times that a target has lied.
    lies,
    /// Restores from what has lied that ended with an error, and what was found of it by reading all.
    lies_found,
    /// States of an archive that has lied which were called good by reading all, restored and compared.
    lies_survived,
    /// Times that the power of a target has failed.
    targets_died,
    /// Other servers that write to the same archive.
    rivals,
    /// Lives whose archiver was fenced by a later one; or has seen that the archive is another log's.
    archivers_fenced,
    /// See `archivers_fenced`.
    archivers_refused,
    /// Blocks that an archive does not have, asked for and refused.
    blocks_refused,
    /// Restores from an archive in which a bit has turned that were refused for it.
    rot_refused,
    /// Nights, in which nothing is written and archives are thinned out.
    nights,
    /// Times that an archive was thinned out to the end.
    archives_tidied,
    /// Copies that were made by what thins out.
    tidiers_copies,
    /// States that rules or names keep, of those that were restored from an archive alone.
    kept_restored,
    /// Times that the log was set back in place.
    set_back,
    /// Times that the log was turned off and on again.
    log_switches,
    /// Recoveries that were repeated on a copy of the disk and compared.
    twin_recoveries,
    /// Starts on a copy of the disk that have believed the index.
    starts_behind_index,
    /// Starts refused because a device had lied.
    starts_refused,
    /// Broken promises: states that no recovery may come to.
    violations,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let figures = self.figures();
        let parts =
            figures.iter().map(|(name, count)| format!("{} {count}", name.replace('_', " ")));
        f.write_str(&parts.collect::<Vec<_>>().join(", "))
    }
}
