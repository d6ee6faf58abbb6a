//! On-the-fly redo (section 3.2): a page is its image in storage and its records.
//!
//! What this does needs no latch: it works on a log and a page that the caller has for itself, or
//! holds still.

use crate::data_file::DataFile;
use crate::error::{Error, Result};
use crate::online_log::PageLog;
use crate::page::{Kind, Page};
use crate::position::PageId;
use crate::redo_record::Op;

/// Where the image is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Image {
    /// In this slot of the page; it is read if a record does not give the page all of its content.
    InSlot(bool),
    /// It was read already, from this slot, and has the records up to its LSN.
    Loaded(bool),
}

/// Makes `page`, whose contents do not matter unless it was loaded, what it is with the first
/// `count` records of `log`; true if it was read.
pub(crate) fn redo(
    data: &DataFile,
    id: PageId,
    image: Image,
    log: &PageLog,
    count: usize,
    page: &mut Page,
) -> Result<bool> {
    let path = data.path();
    let (Image::InSlot(slot) | Image::Loaded(slot)) = image;
    let offset = DataFile::offset(id, slot);
    let wrong = |what: &str| Error::corrupt(path, offset, format!("page {id}: {what}"));
    let whole = log.last_whole(count);
    let is_to_read = whole.is_none() && matches!(image, Image::InSlot(_));
    if is_to_read {
        data.read_page(id, slot, page)?;
    }
    let is_page = is_to_read || matches!(image, Image::Loaded(_));
    let has = if is_page { log.len_through(page.lsn()).min(count) } else { 0 };
    let first = whole.unwrap_or(0).max(has);
    if first == count {
        return Ok(is_to_read);
    }
    let mut is_to_verify = false;
    for (lsn, op) in log.operations(first..count) {
        let op = Op::decode(op).ok_or_else(|| wrong("a record of it is none"))?;
        op.apply(page, id, lsn, None).map_err(wrong)?;
        // A single cell is checked as it is applied.
        is_to_verify |= !matches!(op, Op::Put(_) | Op::Patch { .. } | Op::Remove { .. });
    }
    if is_to_verify || page.kind() != Some(Kind::Leaf) {
        page.verify_shape().map_err(wrong)?;
    }
    Ok(is_to_read)
}
