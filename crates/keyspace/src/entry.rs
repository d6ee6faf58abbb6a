//! The entry of a key: one block of memory behind a thin pointer.
//!
//! ```text
//!  0        8            12          15       16             (28)    …
//!  ┌────────┬────────────┬───────────┬────────┬──────────────┬───────┬─────────┐
//!  │ record │ access 24  │ payload   │ key    │ expiry i64   │ key   │ payload │
//!  │ addr   │ kind 4     │ length    │ length │ ttl slot u32 │ bytes │ bytes   │
//!  │        │ flags 4    │ 24        │ 8      │ (if flagged) │       │         │
//!  └────────┴────────────┴───────────┴────────┴──────────────┴───────┴─────────┘
//!
//!  A key of 255 bytes or more has its length in four bytes at 16, and 255 at 15.
//! ```
//!
//! One allocation a key keeps the cost of a small value at 16 bytes and one cache miss. The
//! payload is the value itself when it is small (a string, or a packed collection, byte for byte
//! as the log has it), an `i64`, or an owning pointer to an [`Object`].
//!
//! The allocator has four sizes to a doubling, so that a value just above one of them would leave a fifth of the block
//! empty. Where two blocks take less, the value is *apart*: the payload is an owning pointer to its bytes.
//!
//! An entry without its value is *bare*: the record at its address has the value. Then the payload is a
//! trace of it: how many bytes it took, and the type and the incarnation of an object. A bare entry without
//! a trace, or with nothing but the type of an object, is *lost*: the record at its address says that the log
//! does not have the value either.
//!
//! # Invariants
//! - The block was allocated with exactly [`Entry::layout`] of its own header.
//! - A payload of kind [`Kind::Object`] is eight bytes that came from `Box::into_raw`.
//! - A payload that is apart is eight bytes, a pointer to a block of exactly [`Entry::payload_len`] bytes; no number,
//!   object or trace is apart.
//! - Fields past the header are unaligned and are read and written as such.
#![expect(unsafe_code, reason = "a thin pointer to a block of variable size has no safe form")]

mod bare;

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error, realloc};
use std::ptr::NonNull;

use base::RecordAddr;

use crate::object::Object;
use crate::table::Keyed;

const ACCESS_AT: usize = 8;
const LENGTHS_AT: usize = 12;
const LONG_KEY_LEN_AT: usize = 16;
/// The header of an entry whose key has fewer than [`LONG_KEY`] bytes.
pub(crate) const HEAD_BYTES: usize = 16;
const LONG_HEAD_BYTES: usize = 20;
const TTL_BYTES: usize = 12;
const ALIGN: usize = 8;

const PAYLOAD_LEN_MASK: u32 = 0x00ff_ffff;
const KEY_LEN_SHIFT: u32 = 24;
/// In place of a key's length: it is as long at least.
const LONG_KEY: u32 = 0xff;
/// The most bytes of a value that is no object.
pub(crate) const PAYLOAD_BYTES_MAX: usize = PAYLOAD_LEN_MASK as usize;

const ACCESS_MASK: u32 = 0x00ff_ffff;
const KIND_SHIFT: u32 = 24;
const KIND_MASK: u32 = 0x0f00_0000;
/// The bit of the kind that bare entries have.
const BARE_BIT: u32 = 8;
const TTL_FLAG: u32 = 0x1000_0000;
const RETURNED_FLAG: u32 = 0x2000_0000;
const EARLY_FLAG: u32 = 0x4000_0000;
const APART_FLAG: u32 = 0x8000_0000;

/// What a payload takes in the entry's block that is a pointer.
const POINTER_BYTES: usize = size_of::<*mut u8>();
/// From how many bytes on a value may be apart: a miss of the cache more is little next to reading so many.
const APART_BYTES_MIN: usize = 512;

/// The bytes that the allocator takes for a block of `size` bytes, as jemalloc has it: four sizes to a doubling, and
/// steps of 16 bytes below.
fn class(size: usize) -> usize {
    size.next_multiple_of((size.next_power_of_two() / 8).max(16))
}

/// What the payload of an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The bytes of a string.
    Str = 0,
    /// The bytes of a string that was changed in place, which Redis calls `raw`.
    StrRaw = 1,
    /// A string that is the decimal form of an `i64`.
    Int = 2,
    /// A small list, packed.
    ListPacked = 3,
    /// A small hash, packed.
    HashPacked = 4,
    /// A small set, packed.
    SetPacked = 5,
    /// A small sorted set, packed.
    ZSetPacked = 6,
    /// An owning pointer to an [`Object`].
    Object = 7,
}

impl Kind {
    const ALL: [Self; 8] = [
        Self::Str,
        Self::StrRaw,
        Self::Int,
        Self::ListPacked,
        Self::HashPacked,
        Self::SetPacked,
        Self::ZSetPacked,
        Self::Object,
    ];
}

/// The payload of an entry.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    /// The bytes of a string.
    Str(&'a [u8]),
    /// A string that is a number.
    Int(i64),
    /// A small collection; the kind says of which type.
    Packed(Kind, &'a [u8]),
    /// A large value.
    Object(&'a Object),
}

/// When a key expires, and where the database's list of expiring keys has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ttl {
    /// Unix milliseconds.
    pub(crate) expires_at_ms: i64,
    /// The index in [`crate::db::Db`]'s list of expiring keys.
    pub(crate) slot: u32,
}

/// An owning thin pointer to the block of one key.
pub(crate) struct Entry(NonNull<u8>);

// SAFETY: an entry owns its block and what the block points to (an `Object`, which is `Send`),
// and shares it with nothing.
unsafe impl Send for Entry {}

impl Entry {
    /// An entry of inline bytes.
    pub(crate) fn with_bytes(key: &[u8], kind: Kind, bytes: &[u8]) -> Self {
        debug_assert!(!matches!(kind, Kind::Int | Kind::Object));
        Self::allocate(key, kind, bytes)
    }

    /// An entry of a string that is a number.
    pub(crate) fn with_int(key: &[u8], value: i64) -> Self {
        Self::allocate(key, Kind::Int, &value.to_ne_bytes())
    }

    /// An entry of a large value.
    pub(crate) fn with_object(key: &[u8], object: Box<Object>) -> Self {
        let mut entry = Self::allocate(key, Kind::Str, &[0; 8]);
        entry.store_object(object);
        entry
    }

    fn allocate(key: &[u8], kind: Kind, payload: &[u8]) -> Self {
        let key_len = u32::try_from(key.len()).expect("the protocol bounds a key below 4 GiB");
        let head_bytes = if key_len < LONG_KEY { HEAD_BYTES } else { LONG_HEAD_BYTES };
        let rest = head_bytes + key.len();
        let is_apart = Self::is_better_apart(rest, payload.len());
        let inline_len = if is_apart { POINTER_BYTES } else { payload.len() };
        let layout = block_layout(rest + inline_len);
        // SAFETY: the layout is never of size 0: it has the header.
        let block =
            NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout));
        let mut entry = Self(block);
        entry.write_u64(0, 0);
        let apart = if is_apart { APART_FLAG } else { 0 };
        entry.write_u32(ACCESS_AT, ((kind as u32) << KIND_SHIFT) | apart);
        entry.write_u32(LENGTHS_AT, key_len.min(LONG_KEY) << KEY_LEN_SHIFT);
        if key_len >= LONG_KEY {
            entry.write_u32(LONG_KEY_LEN_AT, key_len);
        }
        entry.set_payload_len(payload.len());
        // SAFETY: the layout has room for the header, the key and the payload or its pointer, in this order.
        unsafe {
            let at = block.as_ptr().add(head_bytes);
            at.copy_from_nonoverlapping(key.as_ptr(), key.len());
        }
        if is_apart {
            entry.store_apart(apart_block(payload.len()));
        }
        // SAFETY: the payload, wherever it is, has room for these bytes.
        unsafe { entry.payload_ptr().copy_from_nonoverlapping(payload.as_ptr(), payload.len()) }
        entry
    }

    /// Whether a payload of `len` bytes takes less memory apart, next to `rest` bytes of header, expiry and key.
    fn is_better_apart(rest: usize, len: usize) -> bool {
        let together = class(rest + len);
        len >= APART_BYTES_MIN
            && class(rest + POINTER_BYTES) + class(len) + together / 16 <= together
    }

    fn layout(&self) -> Layout {
        block_layout(self.payload_at() + self.inline_len())
    }

    fn read_u32(&self, at: usize) -> u32 {
        // SAFETY: `at` is a header offset; every block has the header.
        unsafe { self.0.as_ptr().add(at).cast::<u32>().read_unaligned() }
    }

    fn write_u32(&mut self, at: usize, value: u32) {
        // SAFETY: `at` is a header offset; every block has the header.
        unsafe { self.0.as_ptr().add(at).cast::<u32>().write_unaligned(value) }
    }

    fn write_u64(&mut self, at: usize, value: u64) {
        // SAFETY: `at` is a header or expiry offset that the caller knows to be there.
        unsafe { self.0.as_ptr().add(at).cast::<u64>().write_unaligned(value) }
    }

    fn has_long_key(&self) -> bool {
        self.read_u32(LENGTHS_AT) >> KEY_LEN_SHIFT == LONG_KEY
    }

    fn head_bytes(&self) -> usize {
        if self.has_long_key() { LONG_HEAD_BYTES } else { HEAD_BYTES }
    }

    fn key_len(&self) -> usize {
        match self.has_long_key() {
            true => self.read_u32(LONG_KEY_LEN_AT) as usize,
            false => (self.read_u32(LENGTHS_AT) >> KEY_LEN_SHIFT) as usize,
        }
    }

    fn payload_len(&self) -> usize {
        (self.read_u32(LENGTHS_AT) & PAYLOAD_LEN_MASK) as usize
    }

    fn set_payload_len(&mut self, len: usize) {
        assert!(len <= PAYLOAD_BYTES_MAX, "inline payloads are small");
        let len = u32::try_from(len).expect("inline payloads are small");
        self.write_u32(LENGTHS_AT, self.read_u32(LENGTHS_AT) & !PAYLOAD_LEN_MASK | len);
    }

    fn has_ttl(&self) -> bool {
        self.read_u32(ACCESS_AT) & TTL_FLAG != 0
    }

    fn is_apart(&self) -> bool {
        self.read_u32(ACCESS_AT) & APART_FLAG != 0
    }

    /// What the payload takes in the entry's block.
    fn inline_len(&self) -> usize {
        if self.is_apart() { POINTER_BYTES } else { self.payload_len() }
    }

    /// Where the payload's bytes are.
    fn payload_ptr(&self) -> *mut u8 {
        // SAFETY: the payload follows the key in the block; one that is apart is a pointer there.
        unsafe {
            let at = self.0.as_ptr().add(self.payload_at());
            if self.is_apart() { at.cast::<*mut u8>().read_unaligned() } else { at }
        }
    }

    /// Stores where the payload's bytes are, which the flag says are apart.
    fn store_apart(&mut self, bytes: NonNull<u8>) {
        assert!(self.is_apart(), "the block has the bytes themselves");
        // SAFETY: the block has room for a pointer behind the key.
        unsafe {
            let at = self.0.as_ptr().add(self.payload_at());
            at.cast::<*mut u8>().write_unaligned(bytes.as_ptr());
        }
    }

    fn key_at(&self) -> usize {
        self.head_bytes() + if self.has_ttl() { TTL_BYTES } else { 0 }
    }

    fn payload_at(&self) -> usize {
        self.key_at() + self.key_len()
    }

    /// The bytes that the key's entry takes, without an object's own memory.
    pub(crate) fn block_bytes(&self) -> usize {
        self.layout().size() + if self.is_apart() { self.payload_len() } else { 0 }
    }

    fn kind_code(&self) -> u32 {
        (self.read_u32(ACCESS_AT) & KIND_MASK) >> KIND_SHIFT
    }

    /// The kind of the payload.
    ///
    /// # Panics
    /// When the entry is bare: a value is brought back before it is used.
    pub(crate) fn kind(&self) -> Kind {
        Kind::ALL[self.kind_code() as usize]
    }

    /// The kind of the payload, or that it had.
    pub(crate) fn value_kind(&self) -> Kind {
        Kind::ALL[(self.kind_code() & !BARE_BIT) as usize]
    }

    /// Whether only the log has the value.
    pub(crate) fn is_bare(&self) -> bool {
        self.kind_code() & BARE_BIT != 0
    }

    fn set_kind(&mut self, kind: Kind) {
        self.set_kind_code(kind as u32);
    }

    fn set_kind_code(&mut self, code: u32) {
        let word = self.read_u32(ACCESS_AT) & !KIND_MASK;
        self.write_u32(ACCESS_AT, word | (code << KIND_SHIFT));
    }

    /// Whether a walk that has not come to the key passes it over; see [`crate::walk`].
    pub(crate) fn is_early(&self) -> bool {
        self.read_u32(ACCESS_AT) & EARLY_FLAG != 0
    }

    /// Notes whether a walk that has not come to the key passes it over.
    pub(crate) fn set_early(&mut self, is_early: bool) {
        let word = self.read_u32(ACCESS_AT) & !EARLY_FLAG;
        self.write_u32(ACCESS_AT, word | if is_early { EARLY_FLAG } else { 0 });
    }

    /// The address of the record that restores the entry.
    pub(crate) fn addr(&self) -> Option<RecordAddr> {
        // SAFETY: every block begins with the address.
        RecordAddr::from_raw(unsafe { self.0.as_ptr().cast::<u64>().read_unaligned() })
    }

    /// Stores the address of the record that restores the entry.
    pub(crate) fn set_addr(&mut self, addr: Option<RecordAddr>) {
        self.write_u64(0, RecordAddr::to_raw(addr));
    }

    /// The 24 bits that eviction keeps of the entry's use.
    pub(crate) fn access(&self) -> u32 {
        self.read_u32(ACCESS_AT) & ACCESS_MASK
    }

    /// Stores the 24 bits that eviction keeps of the entry's use.
    pub(crate) fn set_access(&mut self, access: u32) {
        let word = self.read_u32(ACCESS_AT) & !ACCESS_MASK;
        self.write_u32(ACCESS_AT, word | (access & ACCESS_MASK));
    }

    /// The payload.
    pub(crate) fn payload(&self) -> Payload<'_> {
        match self.kind() {
            Kind::Str | Kind::StrRaw => Payload::Str(self.bytes()),
            Kind::Int => Payload::Int(i64::from_ne_bytes(
                self.bytes().try_into().expect("a number takes eight bytes"),
            )),
            Kind::Object => Payload::Object(self.object().expect("the kind says so")),
            packed => Payload::Packed(packed, self.bytes()),
        }
    }

    fn bytes(&self) -> &[u8] {
        // SAFETY: the payload's bytes live as long as `self`, which owns them.
        unsafe { std::slice::from_raw_parts(self.payload_ptr(), self.payload_len()) }
    }

    /// The inline bytes, to be changed in place.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        assert!(self.kind() != Kind::Object, "an object's pointer is not bytes");
        // SAFETY: as `bytes`, and `self` is borrowed mutably.
        unsafe { std::slice::from_raw_parts_mut(self.payload_ptr(), self.payload_len()) }
    }

    fn object_ptr(&self) -> Option<*mut Object> {
        (self.kind_code() == Kind::Object as u32).then(|| {
            // SAFETY: a payload of kind `Object` is a pointer from `Box::into_raw`.
            unsafe { self.0.as_ptr().add(self.payload_at()).cast::<*mut Object>().read_unaligned() }
        })
    }

    /// The large value, if it is one.
    pub(crate) fn object(&self) -> Option<&Object> {
        // SAFETY: the pointer owns the object, which lives as long as `self`.
        self.object_ptr().map(|object| unsafe { &*object })
    }

    /// The large value, if it is one, to be changed.
    pub(crate) fn object_mut(&mut self) -> Option<&mut Object> {
        // SAFETY: the pointer owns the object, and `self` is borrowed mutably.
        self.object_ptr().map(|object| unsafe { &mut *object })
    }

    /// Takes the large value out and leaves an empty string.
    pub(crate) fn take_object(&mut self) -> Option<Box<Object>> {
        let object = self.object_ptr()?;
        self.set_kind(Kind::Str);
        self.resize_payload(0);
        // SAFETY: the pointer came from `Box::into_raw`, and the kind no longer says `Object`,
        // so no box is made of it again.
        Some(unsafe { Box::from_raw(object) })
    }

    /// Replaces the payload by inline bytes; an object that was there is dropped.
    pub(crate) fn replace_bytes(&mut self, kind: Kind, bytes: &[u8]) {
        debug_assert!(kind != Kind::Object);
        drop(self.take_object());
        self.set_kind(kind);
        if self.payload_len() != bytes.len() {
            self.resize_payload(bytes.len());
        }
        self.bytes_mut().copy_from_slice(bytes);
    }

    /// Replaces the payload by a number; an object that was there is dropped.
    pub(crate) fn replace_int(&mut self, value: i64) {
        self.replace_bytes(Kind::Int, &value.to_ne_bytes());
    }

    /// Replaces the payload by a large value; an object that was there is dropped.
    pub(crate) fn replace_object(&mut self, object: Box<Object>) {
        drop(self.take_object());
        self.set_kind(Kind::Str);
        if self.payload_len() != size_of::<*mut Object>() {
            self.resize_payload(size_of::<*mut Object>());
        }
        self.store_object(object);
    }

    /// Stores the pointer; the payload is eight bytes and not a live object.
    fn store_object(&mut self, object: Box<Object>) {
        assert!(self.kind() != Kind::Object && self.payload_len() == size_of::<*mut Object>());
        let at = self.payload_at();
        // SAFETY: the payload is eight bytes long.
        unsafe {
            self.0.as_ptr().add(at).cast::<*mut Object>().write_unaligned(Box::into_raw(object));
        }
        self.set_kind(Kind::Object);
    }

    /// Makes the payload `len` bytes long; bytes past the old length are zero.
    fn resize_payload(&mut self, len: usize) {
        let old_len = self.payload_len();
        let rest = self.payload_at();
        match (self.is_apart(), Self::is_better_apart(rest, len)) {
            (false, false) => self.resize_block(self.layout(), rest + len),
            (false, true) => self.move_apart(len),
            (true, false) => self.move_together(len),
            (true, true) => {
                // SAFETY: the block was allocated for the old length; the new one is not 0, as it is apart.
                let moved = unsafe { realloc(self.payload_ptr(), apart_layout(old_len), len) };
                let layout = apart_layout(len);
                self.store_apart(NonNull::new(moved).unwrap_or_else(|| handle_alloc_error(layout)));
            }
        }
        self.set_payload_len(len);
        if let Some(grown) = self.bytes_mut().get_mut(old_len..) {
            grown.fill(0);
        }
    }

    /// Moves the payload out of the entry's block, to where it may be `len` bytes long.
    fn move_apart(&mut self, len: usize) {
        let (old, rest) = (self.layout(), self.payload_at());
        let apart = apart_block(len);
        let kept = self.bytes().len().min(len);
        // SAFETY: both have these bytes, and nothing else points to the new block.
        unsafe { apart.as_ptr().copy_from_nonoverlapping(self.payload_ptr(), kept) }
        self.resize_block(old, rest + POINTER_BYTES);
        self.write_u32(ACCESS_AT, self.read_u32(ACCESS_AT) | APART_FLAG);
        self.store_apart(apart);
    }

    /// Moves the payload back, to where it may be `len` bytes long.
    fn move_together(&mut self, len: usize) {
        let (old, rest) = (self.layout(), self.payload_at());
        let (apart, old_len) = (self.payload_ptr(), self.payload_len());
        self.resize_block(old, rest + len);
        self.write_u32(ACCESS_AT, self.read_u32(ACCESS_AT) & !APART_FLAG);
        // SAFETY: both have these bytes; the block was allocated for the old length, and nothing points to it any more.
        unsafe {
            self.payload_ptr().copy_from_nonoverlapping(apart, old_len.min(len));
            dealloc(apart, apart_layout(old_len));
        }
    }

    fn resize_block(&mut self, old: Layout, size: usize) {
        // SAFETY: the block was allocated with `old`; the new size is not 0 (it has the header)
        // and far below `isize::MAX`.
        let block = unsafe { realloc(self.0.as_ptr(), old, size) };
        self.0 = NonNull::new(block).unwrap_or_else(|| {
            handle_alloc_error(Layout::from_size_align(size, ALIGN).expect("as above"))
        });
    }

    /// When the key expires.
    pub(crate) fn ttl(&self) -> Option<Ttl> {
        self.has_ttl().then(|| {
            // SAFETY: the flag says that the expiry follows the header.
            unsafe {
                let at = self.0.as_ptr().add(self.head_bytes());
                Ttl {
                    expires_at_ms: at.cast::<i64>().read_unaligned(),
                    slot: at.add(8).cast::<u32>().read_unaligned(),
                }
            }
        })
    }

    /// When the key expires, in Unix milliseconds.
    pub(crate) fn expires_at_ms(&self) -> Option<i64> {
        self.ttl().map(|ttl| ttl.expires_at_ms)
    }

    /// Stores when the key expires; the block moves when it did or did not expire before.
    pub(crate) fn set_ttl(&mut self, ttl: Option<Ttl>) {
        let (had, old, tail) = (self.has_ttl(), self.layout(), self.key_len() + self.inline_len());
        let (word, head_bytes) = (self.read_u32(ACCESS_AT), self.head_bytes());
        match (had, ttl) {
            (false, Some(_)) => {
                self.resize_block(old, old.size() + TTL_BYTES);
                // SAFETY: the block has grown by the expiry; key and payload move behind it.
                unsafe {
                    let at = self.0.as_ptr().add(head_bytes);
                    at.copy_to(at.add(TTL_BYTES), tail);
                }
                self.write_u32(ACCESS_AT, word | TTL_FLAG);
            }
            (true, None) => {
                // SAFETY: key and payload move over the expiry, inside the block.
                unsafe {
                    let at = self.0.as_ptr().add(head_bytes);
                    at.add(TTL_BYTES).copy_to(at, tail);
                }
                self.write_u32(ACCESS_AT, word & !TTL_FLAG);
                self.resize_block(old, old.size() - TTL_BYTES);
            }
            _ => {}
        }
        if let Some(ttl) = ttl {
            self.write_u64(head_bytes, ttl.expires_at_ms.cast_unsigned());
            // SAFETY: the expiry follows the header now.
            unsafe {
                self.0.as_ptr().add(head_bytes + 8).cast::<u32>().write_unaligned(ttl.slot);
            }
        }
    }
}

impl Keyed for Entry {
    fn key(&self) -> &[u8] {
        // SAFETY: the key lies in the block and lives as long as `self`.
        unsafe { std::slice::from_raw_parts(self.0.as_ptr().add(self.key_at()), self.key_len()) }
    }

    fn touch(&self) {
        std::hint::black_box(self.0);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        if let Some(object) = self.object_ptr() {
            // SAFETY: the pointer came from `Box::into_raw` and the entry ends here.
            drop(unsafe { Box::from_raw(object) });
        }
        if self.is_apart() {
            // SAFETY: the block was allocated for this length, and the entry ends here.
            unsafe { dealloc(self.payload_ptr(), apart_layout(self.payload_len())) }
        }
        // SAFETY: the block was allocated with this layout.
        unsafe { dealloc(self.0.as_ptr(), self.layout()) }
    }
}

fn block_layout(size: usize) -> Layout {
    Layout::from_size_align(size, ALIGN).expect("an entry is far below the address space")
}

fn apart_layout(len: usize) -> Layout {
    Layout::array::<u8>(len).expect("inline payloads are small")
}

/// A block for the bytes of a payload that is apart.
fn apart_block(len: usize) -> NonNull<u8> {
    let layout = apart_layout(len);
    assert!(len > 0, "what is apart has bytes");
    // SAFETY: the layout is not of size 0.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

#[cfg(test)]
mod tests {
    use super::bare::TRACE_BYTES;
    use super::*;
    use crate::value_type::{Type, entry_type};
    use base::{Lsn, SegmentId};

    #[test]
    fn an_entry_keeps_key_payload_and_expiry_through_every_change() {
        let mut entry = Entry::with_bytes(b"key", Kind::Str, b"value");
        entry.set_addr(Some(RecordAddr::new(SegmentId(3), 9)));
        entry.set_access(0x00ab_cdef);
        entry.set_ttl(Some(Ttl { expires_at_ms: -5, slot: 7 }));
        entry.replace_int(42);
        assert!(matches!(entry.payload(), Payload::Int(42)));
        assert_eq!(entry.ttl(), Some(Ttl { expires_at_ms: -5, slot: 7 }));
        entry.replace_bytes(Kind::HashPacked, &[1; 300]);
        entry.set_ttl(None);
        assert_eq!(entry.key(), b"key");
        assert!(matches!(entry.payload(), Payload::Packed(Kind::HashPacked, b) if b == [1; 300]));
        assert_eq!(entry.addr(), Some(RecordAddr::new(SegmentId(3), 9)));
        assert_eq!(entry.access(), 0x00ab_cdef);
        assert_eq!(entry.ttl(), None);
    }

    #[test]
    fn a_value_just_above_a_size_of_the_allocator_is_apart_and_takes_less() {
        for (len, is_apart) in [
            (100, false),
            (500, false),
            (1000, true),
            (1024, true),
            (1100, false),
            (3500, false),
            (4090, true),
        ] {
            let entry = Entry::with_bytes(b"a key of this length", Kind::Str, &vec![1; len]);
            assert_eq!(entry.is_apart(), is_apart, "{len}");
            assert_eq!(
                entry.block_bytes(),
                HEAD_BYTES + 20 + len + if is_apart { POINTER_BYTES } else { 0 }
            );
        }
    }

    #[test]
    fn a_value_stays_what_it_is_wherever_it_is_moved() {
        let lengths = [0, 1, 8, 300, 512, 600, 700, 990, 1000, 1024, 1025, 1900, 2040, 4000, 4096];
        for (first, second) in lengths.iter().flat_map(|a| lengths.iter().map(move |b| (*a, *b))) {
            let bytes = |len: usize| {
                (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect::<Vec<u8>>()
            };
            let ttl = Some(Ttl { expires_at_ms: 77, slot: 3 });
            let mut entry = Entry::with_bytes(b"key", Kind::StrRaw, &bytes(first));
            entry.set_access(9);
            entry.set_addr(Some(RecordAddr::new(SegmentId(3), 9)));
            entry.set_ttl(ttl);
            assert_eq!(entry.bytes(), bytes(first));
            entry.resize_payload(second);
            let kept = first.min(second);
            assert_eq!(entry.bytes()[..kept], bytes(kept));
            assert!(entry.bytes()[kept..].iter().all(|byte| *byte == 0));
            entry.replace_bytes(Kind::HashPacked, &bytes(second));
            entry.set_ttl(None);
            assert_eq!((entry.bytes(), entry.key()), (&bytes(second)[..], &b"key"[..]));
            entry.replace_object(Box::new(Object::for_test(1)));
            assert_eq!(entry.object().map(Object::id), Some(base::ObjectId(1)));
            entry.replace_bytes(Kind::Str, &bytes(first));
            assert!(entry.make_bare().is_none() && !entry.is_apart());
            entry.fill(Entry::with_bytes(b"key", Kind::Str, &bytes(first)));
            assert_eq!((entry.bytes(), entry.access(), entry.ttl()), (&bytes(first)[..], 9, None));
            assert_eq!(entry.addr(), Some(RecordAddr::new(SegmentId(3), 9)));
        }
    }

    /// A key's length has a byte below 255, and four from there on; what follows it stays what it is.
    #[test]
    fn a_key_may_have_any_length() {
        for (key_len, head_bytes) in
            [(0, 16), (1, 16), (254, 16), (255, 20), (256, 20), (70_000, 20)]
        {
            let key = vec![b'k'; key_len];
            let mut entry = Entry::with_bytes(&key, Kind::Str, &[7; 600]);
            assert_eq!((entry.key(), entry.bytes()), (&*key, &[7; 600][..]));
            let ttl = Some(Ttl { expires_at_ms: -5, slot: u32::MAX });
            entry.set_ttl(ttl);
            entry.replace_bytes(Kind::StrRaw, &[8; 20]);
            assert_eq!(entry.block_bytes(), head_bytes + TTL_BYTES + key_len + 20);
            assert_eq!((entry.key(), entry.bytes(), entry.ttl()), (&*key, &[8; 20][..], ttl));
            entry.set_ttl(None);
            assert!(entry.make_bare().is_none());
            assert_eq!((entry.key(), entry.bare_bytes(), entry.ttl()), (&*key, 20, None));
        }
    }

    #[test]
    fn that_a_walk_passes_it_over_changes_nothing_else_and_is_changed_by_nothing_else() {
        let mut entry = Entry::with_bytes(b"key", Kind::Str, b"value");
        entry.set_access(0x00ff_ffff);
        assert!(!entry.is_early());
        entry.set_early(true);
        entry.set_ttl(Some(Ttl { expires_at_ms: 5, slot: 1 }));
        entry.replace_object(Box::new(Object::for_test(1)));
        entry.note_returned();
        entry.set_access(7);
        drop(entry.take_object());
        entry.replace_int(1);
        assert!(entry.take_returned() && entry.is_early());
        entry.set_ttl(None);
        assert!(entry.is_early() && matches!(entry.payload(), Payload::Int(1)));
        entry.set_early(false);
        assert_eq!((entry.is_early(), entry.access(), entry.key()), (false, 7, &b"key"[..]));
    }

    #[test]
    fn a_bare_entry_keeps_everything_but_its_value() {
        let ttl = Some(Ttl { expires_at_ms: 9, slot: 2 });
        for kind in [Kind::Str, Kind::StrRaw, Kind::HashPacked] {
            let mut entry = Entry::with_bytes(b"key", kind, &[7; 100]);
            entry.set_ttl(ttl);
            entry.set_access(5);
            assert!(entry.droppable_bytes() >= 80 && entry.make_bare().is_none());
            assert!(entry.is_bare() && entry.value_kind() == kind && entry.object().is_none());
            assert_eq!((entry.key(), entry.ttl(), entry.access()), (&b"key"[..], ttl, 5));
            assert_eq!(entry.block_bytes(), HEAD_BYTES + TTL_BYTES + 3 + TRACE_BYTES);
            assert_eq!(entry.bare_bytes(), 100);
            entry.fill(Entry::with_bytes(b"key", Kind::Str, &[7; 100]));
            assert!(entry.take_returned() && !entry.take_returned());
            assert_eq!((entry.kind() == Kind::StrRaw, entry.ttl()), (kind == Kind::StrRaw, ttl));
            assert_eq!(entry.bytes(), &[7; 100]);
        }
        let mut entry = Entry::with_bytes(b"key", Kind::StrRaw, b"12");
        assert_eq!((entry.droppable_bytes(), entry.make_bare().is_some()), (0, false));
        entry.fill(Entry::with_int(b"key", 12));
        assert!(matches!(entry.payload(), Payload::Str(b"12")), "it is raw as it was");
    }

    #[test]
    fn a_lost_entry_keeps_its_type_and_expiry() {
        for value_type in Type::ALL {
            let mut entry = Entry::with_bytes(b"key", Kind::Str, &[7; 100]);
            entry.set_ttl(Some(Ttl { expires_at_ms: 9, slot: 2 }));
            assert!(entry.make_bare().is_none() && !entry.is_lost());
            entry.make_lost(value_type);
            assert!(entry.is_lost() && entry.is_bare());
            assert_eq!((entry_type(&entry), entry.expires_at_ms()), (value_type, Some(9)));
            assert_eq!((entry.bare_object(), entry.bare_bytes()), (None, 0));
            entry.replace_int(4);
            assert!(!entry.is_lost());
        }
    }

    #[test]
    fn a_bare_object_leaves_its_type_and_incarnation() {
        let mut entry = Entry::with_object(b"k", Box::new(Object::for_test(8)));
        let object = entry.make_bare().expect("it is large");
        assert_eq!(entry.bare_object(), Some((Type::String, base::ObjectId(8))));
        assert!(entry.bare_bytes() > 0);
        entry.fill(Entry::with_object(b"k", object));
        assert_eq!(entry.object().map(Object::id), Some(base::ObjectId(8)));
        entry.make_bare();
        let known = Entry::bare(b"k", Type::String, Some((base::ObjectId(8), Lsn(3))));
        assert_eq!(known.bare_object(), entry.bare_object());
        assert_eq!((known.bare_changed_at(), known.bare_bytes()), (Lsn(3), 0));
        entry.replace_int(4);
        assert!(matches!(entry.payload(), Payload::Int(4)));
    }

    #[test]
    fn an_object_is_owned_taken_and_dropped() {
        let mut entry = Entry::with_object(b"k", Box::new(Object::for_test(1)));
        assert_eq!(entry.object().map(Object::id), Some(base::ObjectId(1)));
        entry.set_ttl(Some(Ttl { expires_at_ms: 1, slot: 0 }));
        entry.replace_object(Box::new(Object::for_test(2)));
        let taken = entry.take_object().expect("it was there");
        assert_eq!(taken.id(), base::ObjectId(2));
        assert!(matches!(entry.payload(), Payload::Str(b"")));
        entry.replace_object(taken);
        assert!(entry.object_mut().is_some());
    }
}
