//! Reading what is on disk, believing nothing and changing nothing.
//!
//! `in_use` says whether there is a log (`reader_links` are of readers of other processes), `catalog` what belongs to it (`as_of` a block that was its last), `scan` reads one image block
//! by block (of several files `side_by_side`), `large_block` a block piece by piece, and `merge` brings all blocks into the order of
//! their LSNs. Of a log that goes on, `images` says what there is at a moment; `reader` reads single
//! records (`places` knows where: in a group, by `group_read`, or in a block, by
//! `block_index`; `handles` keeps files open; `together` reads several groups at a time), `segment_scan` all of a segment (from its `parts`), and
//! `blocks` all of the log in order; `extent` says how much of the past there is, `past` what of it is
//! in files that were replaced.

pub(crate) mod as_of;
pub(crate) mod block_index;
pub(crate) mod blocks;
pub(crate) mod catalog;
pub(crate) mod extent;
pub(crate) mod group_read;
pub(crate) mod handles;
pub(crate) mod images;
pub(crate) mod in_use;
pub(crate) mod large_block;
pub(crate) mod merge;
pub(crate) mod parts;
pub(crate) mod past;
pub(crate) mod places;
pub(crate) mod reader;
pub(crate) mod reader_links;
pub(crate) mod scan;
pub(crate) mod segment_scan;
pub(crate) mod side_by_side;
pub(crate) mod together;
