//! Small objects of the log, made one.
//!
//! ```text
//!   101-140  141-180  181-200 …   an object each interval
//!   101-900                       a full one, of the same blocks; then the small ones go
//! ```
//!
//! What was shipped is kept in memory until it is enough for a full object, so nothing is read again for it. Where a few of them are enough they stay
//! as they are: with much to ship every byte would be compressed and put twice for hardly fewer objects.

use crate::fill::Portion;
use crate::name::Name;
use crate::object::{Builder, HEADER_BYTES};

/// So many objects are made one, however small they are.
const NAMES_MAX: usize = 1000;

/// So many at least.
const NAMES_MIN: usize = 4;

/// See the file's top.
#[derive(Default)]
pub(crate) struct Gathered {
    names: Vec<Name>,
    builder: Option<Builder>,
}

impl Gathered {
    /// An object was shipped.
    pub(crate) fn note(&mut self, shipped: &Portion) {
        let Name::Log { first, writer, .. } = shipped.header.name else { return };
        if self.builder.as_ref().is_some_and(|builder| builder.last().next() != first) {
            *self = Self::default();
        }
        let header = &shipped.header;
        let builder = self
            .builder
            .get_or_insert_with(|| Builder::log(header.database, first, writer, header.before_crc));
        builder.append(header, &shipped.bytes[HEADER_BYTES..]);
        self.names.push(header.name);
    }

    /// The full object, and those that it takes the place of, if there is enough for it.
    pub(crate) fn take(&mut self, bytes_min: usize) -> Option<Portion> {
        let builder = self.builder.as_ref()?;
        if builder.bytes() < bytes_min && self.names.len() < NAMES_MAX {
            return None;
        }
        let Self { names, builder } = std::mem::take(self);
        let (header, bytes) = builder?.finish();
        (names.len() >= NAMES_MIN)
            .then(|| Portion { replaces: names, ..Portion::new(header, bytes) })
    }
}
