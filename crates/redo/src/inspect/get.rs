//! Showing one record of a log: `indelible log get`.
//!
//! Only its group is read, or its block where there are no groups: what is damaged elsewhere in the
//! file does not matter.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{Lsn, RecordAddr};
use env::{Access, Disk};

use crate::error::{IoContext, Result};
use crate::inspect::dump::{DumpFormat, Printer};
use crate::inspect::verify::open_catalog;
use crate::read::group_read::GroupRead;
use crate::read::places::{Places, Source};

/// Writes the record at `addr` of the log in `dir` to `out`, as [`crate::dump`] does. Returns
/// whether there is one. `devices` as for [`crate::verify()`].
///
/// # Errors
/// When the log is in use, the record's group is damaged, or `out` takes no more.
pub fn get(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    devices: &[PathBuf],
    addr: RecordAddr,
    format: DumpFormat,
    out: &mut dyn io::Write,
) -> Result<bool> {
    let catalog = open_catalog(&**disk, dir, devices)?;
    let mut group = GroupRead::default();
    let images = catalog.files.iter().filter(|image| image.header.segment == addr.segment());
    for image in images.filter(|image| image.may_have(addr.ordinal())) {
        let file = disk.open(&image.path, Access::Read).at(&image.path, "open")?;
        // No process writes it: what is there is all there is.
        let (durable, last_block) = (Lsn::MAX, Lsn::ZERO);
        let source = Source { disk: &**disk, file: &*file, image, durable, last_block };
        if let Some(found) = Places::Unknown.find(&source, &mut group, addr.ordinal())? {
            Printer::new(format, out).record(None, addr, &found.record())?;
            return Ok(true);
        }
    }
    Ok(false)
}
