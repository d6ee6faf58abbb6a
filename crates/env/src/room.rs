//! Room on a disk that is not to be used up.

use std::io;
use std::path::Path;

use crate::disk::Disk;

/// Checks that a write of `bytes` leaves `kept_bytes` in the file system of `directory` for others. With 0 kept bytes
/// nothing is checked. It is as good as the moment: others write, too.
///
/// # Errors
/// [`io::ErrorKind::StorageFull`] if it does not, and what [`Disk::available_bytes`] says.
pub fn leave_room(
    disk: &dyn Disk,
    directory: &Path,
    bytes: u64,
    kept_bytes: u64,
) -> io::Result<()> {
    if kept_bytes == 0 {
        return Ok(());
    }
    let available_bytes = disk.available_bytes(directory)?;
    if available_bytes >= bytes.saturating_add(kept_bytes) {
        return Ok(());
    }
    let what = format!(
        "{available_bytes} bytes are left on the device, and {kept_bytes} are kept for the redo log; make room"
    );
    Err(io::Error::new(io::ErrorKind::StorageFull, what))
}
