//! One block of a run: up to a few hundred entries in the order of their names, packed in columns.
//!
//! ```text
//!   header (56)  CRC · counts · widths · the first name · bases
//!   bitmaps      gone, expires, is a root: a bit an entry, if any entry has it
//!   columns      scopes, hashes: each as the difference to the one before
//!                segment (its index in the run's dictionary), ordinal, tag: of those not gone
//!                expiry, object: of those that have one, less the smallest in the block
//!   zeros        up to the block's size
//! ```
//!
//! The hash of an entry in another scope than the one before is stored as it is. Widths are the
//! block's own: one with a single scope stores no scopes, one without expiries no expiries.
//!
//! Nothing of a block is returned unless its CRC was verified once. The CRC begins with the run's
//! header, so a block of another run does not pass; one of another place in the run does not begin
//! with the name in its fence (`Run::verified`). What a CRC cannot exclude, a writer with a defect, is
//! checked while decoding: order, widths, indexes.

use base::bytes::{u16_at, u32_at, u64_at};
use base::checksum::crc32c_append;
use base::{ObjectId, RecordAddr, SegmentId};

use crate::bits::{PAD_BYTES, count_ones, get, get_wide, put, wide_width_of, width_of};
use crate::name::{EXPIRY_MS_MAX, Entry, Hash96, Name, Place, Scope, TAG_MAX, What};

/// The bytes of a block's header.
pub(crate) const HEADER_BYTES: usize = 56;

/// What is wrong with a block.
pub(crate) type Damage = &'static str;

/// The most entries that a block of so many bytes may have.
pub(crate) const fn entries_max(block_bytes: usize) -> usize {
    block_bytes / 4
}

/// Computes a block's CRC from the CRC of its run's header.
fn crc_of(seed: u32, block: &[u8]) -> u32 {
    crc32c_append(seed, &block[4..])
}

/// The widths of the columns, in bits.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Widths {
    scope: u32,
    hash: u32,
    segment: u32,
    ordinal: u32,
    tag: u32,
    expiry: u32,
    object: u32,
}

/// How many entries have what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Counts {
    entries: usize,
    gone: usize,
    expiries: usize,
    objects: usize,
}

/// Where each column begins, in bits from the beginning of the block.
#[derive(Debug, Clone, Copy)]
struct Columns {
    gone: usize,
    expires: usize,
    is_root: usize,
    scope: usize,
    hash: usize,
    segment: usize,
    ordinal: usize,
    tag: usize,
    expiry: usize,
    object: usize,
    end: usize,
}

impl Columns {
    fn new(counts: Counts, widths: Widths) -> Self {
        let Counts { entries, gone: gone_count, expiries, objects } = counts;
        let placed = entries - gone_count;
        let bitmap = |count: usize| if count > 0 { entries } else { 0 };
        let gone = HEADER_BYTES * 8;
        let expires = gone + bitmap(gone_count);
        let is_root = expires + bitmap(expiries);
        let scope = is_root + bitmap(objects);
        let hash = scope + (entries - 1) * widths.scope as usize;
        let segment = hash + (entries - 1) * widths.hash as usize;
        let ordinal = segment + placed * widths.segment as usize;
        let tag = ordinal + placed * widths.ordinal as usize;
        let expiry = tag + placed * widths.tag as usize;
        let object = expiry + expiries * widths.expiry as usize;
        let end = object + objects * widths.object as usize;
        Self { gone, expires, is_root, scope, hash, segment, ordinal, tag, expiry, object, end }
    }
}

/// The bits that a block takes, as [`Columns::end`] without the parts.
fn bits_of(counts: Counts, widths: Widths) -> usize {
    let Counts { entries, gone, expiries, objects } = counts;
    let bitmaps = [gone, expiries, objects].iter().filter(|count| **count > 0).count();
    let names = (entries - 1) * (widths.scope + widths.hash) as usize;
    let places = (entries - gone) * (widths.segment + widths.ordinal + widths.tag) as usize;
    let rare = expiries * widths.expiry as usize + objects * widths.object as usize;
    HEADER_BYTES * 8 + bitmaps * entries + names + places + rare
}

/// The smallest and the largest of some numbers.
#[derive(Debug, Clone, Copy)]
struct Range {
    min: u64,
    max: u64,
}

impl Range {
    const EMPTY: Self = Self { min: u64::MAX, max: 0 };

    fn with(self, number: u64) -> Self {
        Self { min: self.min.min(number), max: self.max.max(number) }
    }

    fn width(self) -> u32 {
        width_of(self.max.saturating_sub(self.min))
    }

    fn base(self) -> u64 {
        if self.min == u64::MAX { 0 } else { self.min }
    }
}

/// What a block with some entries takes, brought up to date with each entry.
#[derive(Debug, Clone, Copy)]
struct Shape {
    counts: Counts,
    /// The bits that any number in a column has.
    scope: u64,
    hash: u128,
    segment: u32,
    ordinal: u32,
    tag: u8,
    expiries: Range,
    objects: Range,
}

impl Shape {
    const EMPTY: Self = Self {
        counts: Counts { entries: 0, gone: 0, expiries: 0, objects: 0 },
        scope: 0,
        hash: 0,
        segment: 0,
        ordinal: 0,
        tag: 0,
        expiries: Range::EMPTY,
        objects: Range::EMPTY,
    };

    fn widths(&self) -> Widths {
        Widths {
            scope: width_of(self.scope),
            hash: wide_width_of(self.hash),
            segment: width_of(self.segment.into()),
            ordinal: width_of(self.ordinal.into()),
            tag: width_of(self.tag.into()),
            expiry: self.expiries.width(),
            object: self.objects.width(),
        }
    }

    #[inline]
    fn with(mut self, previous: Option<Name>, entry: &Entry, segment: u32) -> Self {
        if let Some(previous) = previous {
            let (scope, hash) = differences(previous, entry.name);
            self.scope |= scope;
            self.hash |= hash;
        }
        self.counts.entries += 1;
        match &entry.what {
            What::Gone => self.counts.gone += 1,
            What::At(place) => {
                self.segment |= segment;
                self.ordinal |= place.addr().ordinal();
                self.tag |= place.tag();
                if let Some(expiry) = place.expiry_ms() {
                    self.counts.expiries += 1;
                    self.expiries = self.expiries.with(expiry);
                }
                if let Some(object) = place.object() {
                    self.counts.objects += 1;
                    self.objects = self.objects.with(object.0);
                }
            }
        }
        self
    }
}

/// What is stored of a name that follows another one.
fn differences(previous: Name, name: Name) -> (u64, u128) {
    let scope = name.scope.raw() - previous.scope.raw();
    let hash = name.hash.to_u128();
    (scope, if scope == 0 { hash - previous.hash.to_u128() } else { hash })
}

/// Gathers the entries of a block and encodes them.
#[derive(Debug)]
pub(crate) struct BlockBuilder {
    block_bytes: usize,
    /// The entries with the indexes of their segments.
    entries: Vec<(Entry, u32)>,
    shape: Shape,
}

impl BlockBuilder {
    pub(crate) const fn new(block_bytes: usize) -> Self {
        Self { block_bytes, entries: Vec::new(), shape: Shape::EMPTY }
    }

    /// Adds an entry, unless the block is full: then it must be encoded first. `segment` is the
    /// index of the entry's segment in the dictionary, 0 for an entry that is gone.
    pub(crate) fn push(&mut self, entry: &Entry, segment: u32) -> bool {
        let previous = self.entries.last().map(|(entry, _)| entry.name);
        assert!(previous.is_none_or(|previous| previous < entry.name), "names ascend");
        let shape = self.shape.with(previous, entry, segment);
        let is_other_kind =
            previous.is_some_and(|name| name.scope.is_object() != entry.name.scope.is_object());
        let is_full = bits_of(shape.counts, shape.widths()) > self.block_bytes * 8
            || self.entries.len() == entries_max(self.block_bytes);
        if is_full || is_other_kind {
            assert!(!self.entries.is_empty(), "a block has room for an entry");
            return false;
        }
        self.shape = shape;
        self.entries.push((*entry, segment));
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The names in the block so far.
    pub(crate) fn names(&self) -> impl ExactSizeIterator<Item = Name> {
        self.entries.iter().map(|(entry, _)| entry.name)
    }

    /// Appends the block to `out` and begins the next one.
    pub(crate) fn encode(&mut self, seed: u32, out: &mut Vec<u8>) {
        let start = out.len();
        out.resize(start + self.block_bytes + PAD_BYTES, 0);
        let block = &mut out[start..];
        self.encode_header(block);
        self.encode_columns(block);
        let crc = crc_of(seed, &block[..self.block_bytes]);
        block[..4].copy_from_slice(&crc.to_le_bytes());
        out.truncate(start + self.block_bytes);
        self.entries.clear();
        self.shape = Shape::EMPTY;
    }

    fn encode_header(&self, block: &mut [u8]) {
        let Shape { counts, expiries, objects, .. } = self.shape;
        let counts = [counts.entries, counts.gone, counts.expiries, counts.objects];
        for (at, count) in (4..).step_by(2).zip(counts) {
            let count = u16::try_from(count).expect("a quarter of the block's bytes");
            block[at..at + 2].copy_from_slice(&count.to_le_bytes());
        }
        let Widths { scope, hash, segment, ordinal, tag, expiry, object } = self.shape.widths();
        let widths = [scope, hash, segment, ordinal, tag, expiry, object];
        for (at, width) in (12..).zip(widths) {
            block[at] = u8::try_from(width).expect("at most 96");
        }
        let first = self.entries[0].0.name;
        block[20..28].copy_from_slice(&first.scope.raw().to_le_bytes());
        block[28..36].copy_from_slice(&first.hash.high().to_le_bytes());
        block[36..40].copy_from_slice(&first.hash.low().to_le_bytes());
        block[40..48].copy_from_slice(&expiries.base().to_le_bytes());
        block[48..56].copy_from_slice(&objects.base().to_le_bytes());
    }

    fn encode_columns(&self, block: &mut [u8]) {
        let Shape { counts, expiries, objects, .. } = self.shape;
        let widths = self.shape.widths();
        let columns = Columns::new(counts, widths);
        let (mut placed, mut expiry_count, mut object_count) = (0, 0, 0);
        let mut previous = None;
        for (i, (entry, segment)) in self.entries.iter().enumerate() {
            if let Some(previous) = previous {
                let (scope, hash) = differences(previous, entry.name);
                let at = columns.scope + (i - 1) * widths.scope as usize;
                put(block, at, widths.scope, scope.into());
                let at = columns.hash + (i - 1) * widths.hash as usize;
                put(block, at, widths.hash, hash);
            }
            previous = Some(entry.name);
            let Some(place) = entry.place() else {
                put(block, columns.gone + i, 1, 1);
                continue;
            };
            let at = columns.segment + placed * widths.segment as usize;
            put(block, at, widths.segment, (*segment).into());
            let at = columns.ordinal + placed * widths.ordinal as usize;
            put(block, at, widths.ordinal, place.addr().ordinal().into());
            let at = columns.tag + placed * widths.tag as usize;
            put(block, at, widths.tag, place.tag().into());
            placed += 1;
            if let Some(expiry) = place.expiry_ms() {
                put(block, columns.expires + i, 1, 1);
                let at = columns.expiry + expiry_count * widths.expiry as usize;
                put(block, at, widths.expiry, (expiry - expiries.base()).into());
                expiry_count += 1;
            }
            if let Some(object) = place.object() {
                put(block, columns.is_root + i, 1, 1);
                let at = columns.object + object_count * widths.object as usize;
                put(block, at, widths.object, (object.0 - objects.base()).into());
                object_count += 1;
            }
        }
    }
}

/// A block that can be read.
#[derive(Clone, Copy)]
pub(crate) struct Block<'a> {
    bytes: &'a [u8],
    counts: Counts,
    widths: Widths,
    columns: Columns,
    first: Name,
    expiry_base: u64,
    object_base: u64,
}

/// A name as it is added to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Cursor {
    scope: u64,
    hash: u128,
}

impl Cursor {
    const fn new(name: Name) -> Self {
        Self { scope: name.scope.raw(), hash: name.hash.to_u128() }
    }

    fn name(self) -> Name {
        let hash = Hash96::from_u128(self.hash).expect("checked when it was added to");
        Name::new(Scope::from_raw(self.scope), hash)
    }
}

/// How many of the entries before one have a place, an expiry, an object.
#[derive(Debug, Clone, Copy, Default)]
struct Ranks {
    placed: usize,
    expiries: usize,
    objects: usize,
}

impl<'a> Block<'a> {
    /// Verifies the CRC and parses the header.
    pub(crate) fn verify(bytes: &'a [u8], block_bytes: usize, seed: u32) -> Result<Self, Damage> {
        if u32_at(bytes, 0) != crc_of(seed, &bytes[..block_bytes]) {
            return Err("the block's checksum");
        }
        Self::parse(bytes, block_bytes)
    }

    /// Parses the header of a block that was verified before.
    pub(crate) fn parse(bytes: &'a [u8], block_bytes: usize) -> Result<Self, Damage> {
        let count = |at| usize::from(u16_at(bytes, at));
        let counts =
            Counts { entries: count(4), gone: count(6), expiries: count(8), objects: count(10) };
        let placed = counts.entries.checked_sub(counts.gone).ok_or("more gone than there are")?;
        if counts.entries == 0 || counts.entries > entries_max(block_bytes) {
            return Err("a number of entries that no block has");
        }
        if counts.expiries > placed || counts.objects > placed {
            return Err("more expiries or objects than places");
        }
        let width = |at: usize, max: u32| {
            let width = u32::from(bytes[at]);
            if width <= max { Ok(width) } else { Err("a width that no column has") }
        };
        let widths = Widths {
            scope: width(12, 64)?,
            hash: width(13, 96)?,
            segment: width(14, 32)?,
            ordinal: width(15, 32)?,
            tag: width(16, width_of(TAG_MAX.into()))?,
            expiry: width(17, 48)?,
            object: width(18, 63)?,
        };
        let columns = Columns::new(counts, widths);
        if columns.end > block_bytes * 8 || bytes.len() < block_bytes {
            return Err("columns longer than the block");
        }
        let scope = Scope::from_raw(u64_at(bytes, 20));
        let hash = Hash96::new(u64_at(bytes, 28), u32_at(bytes, 36));
        let (expiry_base, object_base) = (u64_at(bytes, 40), u64_at(bytes, 48));
        if expiry_base > EXPIRY_MS_MAX || object_base > ObjectId::MAX.0 {
            return Err("a base that no column has");
        }
        let first = Name::new(scope, hash);
        Ok(Self { bytes, counts, widths, columns, first, expiry_base, object_base })
    }

    pub(crate) const fn len(&self) -> usize {
        self.counts.entries
    }

    pub(crate) const fn first(&self) -> Name {
        self.first
    }

    /// Moves a cursor from the entry before `i`, from 1, to entry `i`.
    #[inline(always)]
    fn advance(&self, i: usize, cursor: &mut Cursor) -> Result<(), Damage> {
        let at = self.columns.hash + (i - 1) * self.widths.hash as usize;
        let mut more = get_wide(self.bytes, at, self.widths.hash);
        if self.widths.scope > 0 {
            let at = self.columns.scope + (i - 1) * self.widths.scope as usize;
            let scope = u128::from(cursor.scope) + get_wide(self.bytes, at, self.widths.scope);
            let scope = u64::try_from(scope).map_err(|_| "a scope out of range")?;
            if scope > cursor.scope {
                // The hash is stored as it is, and may be 0.
                (cursor.scope, cursor.hash) = (scope, 0);
                if more == 0 {
                    return Ok(());
                }
            }
        }
        if more == 0 {
            return Err("names that do not ascend");
        }
        more += cursor.hash;
        if more >> 96 != 0 {
            return Err("a hash out of range");
        }
        cursor.hash = more;
        Ok(())
    }

    fn has(&self, count: usize, column: usize, i: usize) -> bool {
        count > 0 && get(self.bytes, column + i, 1) == 1
    }

    /// What entry `i` says, given how many before it have what; these are brought up to date.
    #[inline]
    fn what(&self, i: usize, ranks: &mut Ranks, dictionary: &[SegmentId]) -> Result<What, Damage> {
        let Self { bytes, counts, widths, columns, .. } = self;
        if self.has(counts.gone, columns.gone, i) {
            // Those before one are counted by their bits, gone or not.
            let has_more = self.has(counts.expiries, columns.expires, i)
                || self.has(counts.objects, columns.is_root, i);
            return if has_more {
                Err("an expiry or object of what is gone")
            } else {
                Ok(What::Gone)
            };
        }
        if ranks.placed >= counts.entries - counts.gone {
            return Err("more places than the header says");
        }
        let at = columns.segment + ranks.placed * widths.segment as usize;
        let index = usize::try_from(get(bytes, at, widths.segment)).expect("32 bits");
        let segment = *dictionary.get(index).ok_or("a segment that is not in the dictionary")?;
        let at = columns.ordinal + ranks.placed * widths.ordinal as usize;
        let ordinal = u32::try_from(get(bytes, at, widths.ordinal)).expect("32 bits");
        let at = columns.tag + ranks.placed * widths.tag as usize;
        let tag = u8::try_from(get(bytes, at, widths.tag)).expect("5 bits");
        ranks.placed += 1;
        let mut place = Place::new(RecordAddr::new(segment, ordinal), tag);
        if self.has(counts.expiries, columns.expires, i) {
            if ranks.expiries >= counts.expiries {
                return Err("more expiries than the header says");
            }
            let at = columns.expiry + ranks.expiries * widths.expiry as usize;
            let expiry = self.expiry_base + get(bytes, at, widths.expiry);
            if expiry > EXPIRY_MS_MAX {
                return Err("an expiry out of range");
            }
            ranks.expiries += 1;
            place = place.with_expiry(expiry);
        }
        if self.has(counts.objects, columns.is_root, i) {
            if ranks.objects >= counts.objects {
                return Err("more objects than the header says");
            }
            let at = columns.object + ranks.objects * widths.object as usize;
            let more = u64::try_from(get_wide(bytes, at, widths.object)).expect("63 bits");
            let object = ObjectId(self.object_base + more);
            if object > ObjectId::MAX || object == ObjectId::NONE {
                return Err("an object out of range");
            }
            ranks.objects += 1;
            place = place.with_object(object);
        }
        Ok(What::At(place))
    }

    /// Looks for a name.
    pub(crate) fn find(
        &self,
        name: Name,
        dictionary: &[SegmentId],
    ) -> Result<Option<Entry>, Damage> {
        let wanted = Cursor::new(name);
        let mut cursor = Cursor::new(self.first);
        let mut i = 0;
        while cursor < wanted && i + 1 < self.counts.entries {
            i += 1;
            self.advance(i, &mut cursor)?;
        }
        if cursor != wanted {
            return Ok(None);
        }
        let ones = |count, column| if count > 0 { count_ones(self.bytes, column, i) } else { 0 };
        let mut ranks = Ranks {
            placed: i - ones(self.counts.gone, self.columns.gone),
            expiries: ones(self.counts.expiries, self.columns.expires),
            objects: ones(self.counts.objects, self.columns.is_root),
        };
        Ok(Some(Entry { name, what: self.what(i, &mut ranks, dictionary)? }))
    }

    /// Appends all entries to `out`.
    pub(crate) fn decode(
        &self,
        dictionary: &[SegmentId],
        out: &mut Vec<Entry>,
    ) -> Result<(), Damage> {
        let mut cursor = Cursor::new(self.first);
        let mut ranks = Ranks::default();
        out.reserve(self.counts.entries);
        for i in 0..self.counts.entries {
            if i > 0 {
                self.advance(i, &mut cursor)?;
            }
            let name = cursor.name();
            out.push(Entry { name, what: self.what(i, &mut ranks, dictionary)? });
        }
        let Counts { entries, gone, expiries, objects } = self.counts;
        let Ranks { placed, expiries: expiries_seen, objects: objects_seen } = ranks;
        if (placed, expiries_seen, objects_seen) != (entries - gone, expiries, objects) {
            return Err("fewer places, expiries or objects than the header says");
        }
        Ok(())
    }
}
