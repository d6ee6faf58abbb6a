//! On-the-fly redo (section 3.2): a page is its image in storage plus its records.
//!
//! This needs no latch: it works on a log and a page that the caller owns or keeps from changing.

use crate::data_file::DataFile;
use crate::error::{Error, Result};
use crate::online_log::PageLog;
use crate::page::{Kind, Page};
use crate::position::PageId;
use crate::redo_record::Op;

/// Where the image of a page is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Image {
    /// In this slot; it is read unless a record replaces the whole page.
    InSlot(bool),
    /// Already read from this slot; contains the records up to its log offset.
    Loaded(bool),
}

/// Builds `page` from the first `count` records of `log`. Its previous contents matter only if it
/// was loaded. Returns whether it was read.
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
    let has = if is_page { log.len_through(page.log_offset()).min(count) } else { 0 };
    let first = whole.unwrap_or(0).max(has);
    if first == count {
        return Ok(is_to_read);
    }
    let mut is_to_verify = false;
    for (log_offset, op) in log.operations(first..count) {
        let op = Op::decode(op).ok_or_else(|| wrong("a record of it is none"))?;
        op.apply(page, id, log_offset, None).map_err(wrong)?;
        // Applying a single cell checks it.
        is_to_verify |= !matches!(op, Op::Put(_) | Op::Patch { .. } | Op::Remove { .. });
    }
    if is_to_verify || page.kind() != Some(Kind::Leaf) {
        page.verify_shape().map_err(wrong)?;
    }
    Ok(is_to_read)
}
