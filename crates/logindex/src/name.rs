//! Names of entries, and what the index knows about each: plain values.

use base::{DbId, ObjectId, RecordAddr};

/// The bit that tells objects from databases; it makes databases sort first.
const OBJECT_BIT: u64 = 1 << 63;

/// The namespace in which a name is unique: a database or an object.
///
/// Databases sort before objects. [`crate::LivePass`] relies on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Scope(u64);

/// The two kinds of scopes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ScopeKind {
    /// The keys of a database.
    Database(DbId),
    /// The elements of an object.
    Object(ObjectId),
}

impl Scope {
    /// Returns the scope of a database's keys.
    ///
    /// # Panics
    /// If the id is larger than [`DbId::MAX`].
    #[must_use]
    pub fn database(id: DbId) -> Self {
        assert!(id <= DbId::MAX, "a database that no log reaches");
        Self(id.0)
    }

    /// Returns the scope of an object's elements.
    ///
    /// # Panics
    /// If the id is larger than [`ObjectId::MAX`].
    #[must_use]
    pub fn object(id: ObjectId) -> Self {
        assert!(id <= ObjectId::MAX, "an object that no log reaches");
        Self(id.0 | OBJECT_BIT)
    }

    /// Returns which database or object it is.
    #[must_use]
    pub const fn kind(self) -> ScopeKind {
        if self.is_object() {
            ScopeKind::Object(ObjectId(self.0 & !OBJECT_BIT))
        } else {
            ScopeKind::Database(DbId(self.0))
        }
    }

    /// Whether it is an object.
    #[must_use]
    pub const fn is_object(self) -> bool {
        self.0 & OBJECT_BIT != 0
    }

    /// As on disk. Every number is a scope.
    pub(crate) const fn raw(self) -> u64 {
        self.0
    }

    pub(crate) const fn from_raw(raw: u64) -> Self {
        Self(raw)
    }
}

/// 96 bits of a keyed hash that identify a name in its scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hash96 {
    high: u64,
    low: u32,
}

impl Hash96 {
    /// The first in the order.
    pub const MIN: Self = Self { high: 0, low: 0 };
    /// The last in the order.
    pub const MAX: Self = Self { high: u64::MAX, low: u32::MAX };

    /// Creates it from its upper 64 and lower 32 bits.
    #[must_use]
    pub const fn new(high: u64, low: u32) -> Self {
        Self { high, low }
    }

    /// The upper 64 bits.
    #[must_use]
    pub const fn high(self) -> u64 {
        self.high
    }

    /// The lower 32 bits.
    #[must_use]
    pub const fn low(self) -> u32 {
        self.low
    }

    pub(crate) const fn to_u128(self) -> u128 {
        ((self.high as u128) << 32) | self.low as u128
    }

    /// `None` for more than 96 bits.
    #[expect(clippy::cast_possible_truncation, reason = "checked, and the lower part")]
    pub(crate) const fn from_u128(number: u128) -> Option<Self> {
        if number >> 96 != 0 {
            return None;
        }
        Some(Self { high: (number >> 32) as u64, low: number as u32 })
    }
}

/// The name of an entry, in the order of the runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name {
    /// The namespace.
    pub scope: Scope,
    /// The identity in it.
    pub hash: Hash96,
}

impl Name {
    /// Creates a name.
    #[must_use]
    pub const fn new(scope: Scope, hash: Hash96) -> Self {
        Self { scope, hash }
    }
}

/// The largest tag.
pub const TAG_MAX: u8 = 31;

/// The latest expiry that an entry holds: in the year 10889.
pub const EXPIRY_MS_MAX: u64 = (1 << 48) - 1;

const TAG_SHIFT: u32 = 48;
const HAS_EXPIRY: u64 = 1 << 53;

/// Where an entry's newest record is, and what is known of it without reading the record.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Place {
    addr: RecordAddr,
    object: ObjectId,
    /// The expiry, 48 bits; the tag, 5; whether there is an expiry.
    meta: u64,
}

impl Place {
    /// Creates a place; the tag is the caller's, and not looked at here.
    ///
    /// # Panics
    /// If the tag is larger than [`TAG_MAX`].
    #[must_use]
    pub fn new(addr: RecordAddr, tag: u8) -> Self {
        assert!(tag <= TAG_MAX, "a tag has five bits");
        Self { addr, object: ObjectId::NONE, meta: u64::from(tag) << TAG_SHIFT }
    }

    /// Adds an expiry. One later than [`EXPIRY_MS_MAX`] becomes that: only the record knows it.
    #[must_use]
    pub fn with_expiry(mut self, expiry_ms: u64) -> Self {
        let tag = self.meta & (u64::from(TAG_MAX) << TAG_SHIFT);
        self.meta = tag | HAS_EXPIRY | expiry_ms.min(EXPIRY_MS_MAX);
        self
    }

    /// Makes the entry the root of an object; [`ObjectId::NONE`] for none.
    #[must_use]
    pub const fn with_object(mut self, object: ObjectId) -> Self {
        self.object = object;
        self
    }

    /// The address of the record.
    #[must_use]
    pub const fn addr(&self) -> RecordAddr {
        self.addr
    }

    /// The caller's five bits.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "five bits")]
    pub const fn tag(&self) -> u8 {
        (self.meta >> TAG_SHIFT) as u8 & TAG_MAX
    }

    /// When the entry expires.
    #[must_use]
    pub const fn expiry_ms(&self) -> Option<u64> {
        if self.meta & HAS_EXPIRY == 0 { None } else { Some(self.meta & EXPIRY_MS_MAX) }
    }

    /// The object that the entry is the root of.
    #[must_use]
    pub const fn object(&self) -> Option<ObjectId> {
        if self.object.0 == 0 { None } else { Some(self.object) }
    }
}

impl std::fmt::Debug for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} tag {}", self.addr, self.tag())?;
        self.expiry_ms().map_or(Ok(()), |ms| write!(f, " expires {ms}"))?;
        self.object().map_or(Ok(()), |object| write!(f, " object {}", object.0))
    }
}

/// What the newest record of a name says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum What {
    /// The entry exists: its record is there.
    At(Place),
    /// The entry was deleted.
    Gone,
}

/// A name and what its newest record says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: Name,
    /// The place, or that it is gone.
    pub what: What,
}

impl Entry {
    /// Returns the place, unless the entry is gone.
    #[must_use]
    pub const fn place(&self) -> Option<&Place> {
        match &self.what {
            What::At(place) => Some(place),
            What::Gone => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::SegmentId;

    #[test]
    fn databases_sort_before_objects() {
        let database = Scope::database(DbId::MAX);
        let object = Scope::object(ObjectId(1));
        assert!(database < object);
        assert_eq!(database.kind(), ScopeKind::Database(DbId::MAX));
        assert_eq!(object.kind(), ScopeKind::Object(ObjectId(1)));
    }

    #[test]
    fn hashes_sort_as_numbers() {
        let hashes = [Hash96::MIN, Hash96::new(0, u32::MAX), Hash96::new(1, 0), Hash96::MAX];
        assert!(hashes.is_sorted() && hashes.map(Hash96::to_u128).is_sorted());
        for hash in [Hash96::MIN, Hash96::new(7, 9), Hash96::MAX] {
            assert_eq!(Hash96::from_u128(hash.to_u128()), Some(hash));
        }
        assert_eq!(Hash96::from_u128(1 << 96), None);
    }

    #[test]
    fn a_place_keeps_its_parts_in_24_bytes() {
        let addr = RecordAddr::new(SegmentId::MAX, u32::MAX);
        let place = Place::new(addr, 31).with_expiry(u64::MAX).with_object(ObjectId(5));
        assert_eq!((place.addr(), place.tag()), (addr, 31));
        assert_eq!((place.expiry_ms(), place.object()), (Some(EXPIRY_MS_MAX), Some(ObjectId(5))));
        let plain = Place::new(addr, 3);
        assert_eq!((plain.expiry_ms(), plain.object(), plain.tag()), (None, None, 3));
        assert_eq!(Place::new(addr, 0).with_expiry(0).expiry_ms(), Some(0));
        assert_eq!((size_of::<What>(), size_of::<Entry>()), (24, 48));
    }
}
