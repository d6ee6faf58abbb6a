//! Small collections as bytes: what lies inline in a key's entry, and what the log has as the
//! value of a `…Packed` record or of a list node.
//!
//! ```text
//!  ┌───────┬─────┬─────────┬─────┬─────────┬──
//!  │ flags │ len │ element │ len │ element │ …      len: varint
//!  └───────┴─────┴─────────┴─────┴─────────┴──
//! ```
//!
//! A hash alternates field and value, a sorted set member and score (f64, little-endian). A hash with
//! [`EXPIRING_FIELDS`] has field, value and expiry in turn: eight bytes (i64, little-endian) or none.
//!
//! # Invariants
//! - The bytes were built here, or were checked with [`Packed::check`] when they came from a log.

use base::varint;

/// A collection of at most this many packed bytes is one entry: it lies inline in its key's entry and is
/// logged whole. A larger one has an entry, and a record, an element. At this size a change logs
/// about as much as an element's own record and its overhead would, and the eight bytes of
/// address are spent once.
pub const PACKED_BYTES_MAX: usize = 256;

/// The same of a hash with fields that expire: eight bytes of each are when, and a hash that is small without them stays so.
pub const PACKED_EXPIRING_BYTES_MAX: usize = 2 * PACKED_BYTES_MAX;

/// The flag that says that Redis would report the large encoding (`hashtable`, `skiplist`):
/// encodings only ever grow in the life of a key.
pub(crate) const LARGE_ENCODING: u8 = 1;

/// The flag of a hash that has, or had, fields that expire; Redis names the encoding of one otherwise.
pub(crate) const EXPIRING_FIELDS: u8 = base::Record::EXPIRING_FIELDS;

/// A packed collection, read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Packed<'a>(&'a [u8]);

impl<'a> Packed<'a> {
    /// Bytes that were built by this module.
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Bytes of a log, when they are well-formed and hold a multiple of `arity` elements.
    pub(crate) fn check(bytes: &'a [u8], arity: usize) -> Option<Self> {
        let (_, mut rest) = bytes.split_first()?;
        let mut count = 0;
        while !rest.is_empty() {
            varint::take_bytes(&mut rest)?;
            count += 1;
        }
        (count % arity == 0).then_some(Self(bytes))
    }

    /// The flags of the collection.
    pub(crate) const fn flags(self) -> u8 {
        self.0[0]
    }

    /// The size, in bytes.
    pub(crate) const fn bytes(self) -> usize {
        self.0.len()
    }

    /// The elements in their order.
    pub(crate) fn iter(self) -> Elements<'a> {
        Elements(&self.0[1..])
    }

    /// How many elements there are.
    pub(crate) fn count(self) -> usize {
        self.iter().count()
    }
}

/// The elements of a packed collection.
#[derive(Debug, Clone, Default)]
pub(crate) struct Elements<'a>(&'a [u8]);

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        Some(varint::take_bytes(&mut self.0).expect("packed bytes are well-formed"))
    }
}

/// Begins a packed collection in `out`, which is emptied first.
pub(crate) fn begin(out: &mut Vec<u8>, flags: u8) {
    out.clear();
    out.push(flags);
}

/// Appends an element.
pub(crate) fn push(out: &mut Vec<u8>, element: &[u8]) {
    varint::put_bytes(out, element);
}

/// The bytes that an element takes.
pub(crate) const fn element_bytes(len: usize) -> usize {
    varint::len(len as u64) + len
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn elements_come_back(elements: Vec<Vec<u8>>, flags: u8) {
            let mut bytes = Vec::new();
            begin(&mut bytes, flags);
            for element in &elements {
                push(&mut bytes, element);
            }
            let size: usize = elements.iter().map(|e| element_bytes(e.len())).sum();
            prop_assert_eq!(bytes.len(), 1 + size);
            let packed = Packed::check(&bytes, 1).expect("just built");
            prop_assert_eq!(packed.flags(), flags);
            prop_assert_eq!(packed.count(), elements.len());
            prop_assert!(packed.iter().eq(elements.iter().map(Vec::as_slice)));
        }

        #[test]
        fn any_bytes_are_read_or_refused(bytes: Vec<u8>) {
            if let Some(packed) = Packed::check(&bytes, 2) {
                prop_assert_eq!(packed.iter().count() % 2, 0);
            }
        }
    }
}
