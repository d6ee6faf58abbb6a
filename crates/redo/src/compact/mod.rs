//! Garbage: what it is, when it goes, and how.
//!
//! `segments` knows the garbage of each (`bitmap`) and when delete records may go. After a start from an
//! index that has to become known: `validity`, from `live_records`. `schedule` chooses
//! what is compacted by its `figures`, and `compactor` does each `job`: file by file, segment by segment
//! (`image_copy`). `debt` is about what happens when it does not keep up. `marks` are bitmaps as of an
//! LSN, handed over by a `mark_slot`; `holds` knows the files (`kept`) that they, named
//! `backups` and the `window` need, and `history` keeps them, as long as there is `room`; a `dropper` lets go of them, and a
//! `reaper` of what readers of other processes have left.

pub(crate) mod backups;
pub(crate) mod bitmap;
pub(crate) mod compactor;
pub(crate) mod debt;
pub(crate) mod dropper;
pub(crate) mod figures;
pub(crate) mod history;
pub(crate) mod holds;
pub(crate) mod image_copy;
pub(crate) mod job;
pub(crate) mod kept;
pub(crate) mod live_records;
pub(crate) mod mark_slot;
pub(crate) mod marks;
pub(crate) mod reaper;
pub(crate) mod room;
pub(crate) mod schedule;
pub(crate) mod segments;
pub(crate) mod validity;
pub(crate) mod window;
