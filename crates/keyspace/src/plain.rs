//! What records hold, for readers of a log that keep no keyspace.

use base::{DbId, Record, RecordKind, varint};

use crate::database_map::{self, DatabaseMap};
use crate::packed::{Elements, Packed};
use crate::record_check::{self, BadRecord};

/// The elements of a small collection, or of a node of a list.
#[derive(Debug, Clone)]
pub struct PlainElements<'a>(Elements<'a>);

impl<'a> Iterator for PlainElements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        self.0.next()
    }
}

/// Checks what a record says, as a keyspace does before it is applied.
///
/// # Errors
/// When no version of this program writes such a record.
pub fn check(record: &Record<'_>) -> Result<(), BadRecord> {
    let kind = record.kind;
    record_check::check(record).map_err(|what| BadRecord { kind, what })
}

/// The elements that one record has: items, members, field and value in turn (of a hash with
/// expiring fields field, value and expiry), or member and score (f64,
/// little-endian) in turn; `None` of a record that is neither a small collection nor a node of a list.
///
/// The record must have been checked with [`check`].
///
/// # Panics
/// If it was not, and is malformed.
#[must_use]
pub fn elements<'a>(record: &Record<'a>) -> Option<PlainElements<'a>> {
    let is_packed = matches!(
        record.kind,
        RecordKind::ListPacked
            | RecordKind::ListNode
            | RecordKind::HashPacked
            | RecordKind::HashPackedExpiring
            | RecordKind::SetPacked
            | RecordKind::ZSetPacked
    );
    is_packed.then(|| PlainElements(Packed::new(record.value).iter()))
}

/// When a field of a small hash expires, in Unix milliseconds, as its packed expiry says.
#[must_use]
pub fn expiry(packed: &[u8]) -> Option<i64> {
    packed.try_into().ok().map(i64::from_le_bytes)
}

/// Returns the ids of the databases by index, of a log whose newest map is `map` and whose records of
/// keys name databases below `end`, as a start has them.
///
/// # Errors
/// When a record names a database that nothing has given an id to.
pub fn databases(map: Option<&DatabaseMap>, end: DbId) -> Result<Vec<DbId>, BadRecord> {
    if let Some(last) = end.0.checked_sub(1)
        && !database_map::has_id(map, DbId(last))
    {
        return Err(database_map::no_database());
    }
    Ok(database_map::database_ids(map, 0, end.0).0)
}

/// The length in bytes that the root of a large string says; 0 of any other record.
#[must_use]
pub fn string_bytes(root: &Record<'_>) -> u64 {
    let mut value = root.value;
    let is_root = root.kind == RecordKind::LargeString;
    is_root.then(|| varint::take(&mut value)).flatten().unwrap_or(0)
}
