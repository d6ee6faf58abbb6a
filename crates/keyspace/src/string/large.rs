//! A large string: one piece of memory, logged in chunks.
//!
//! # Invariants
//! - `chunks[i]` is where the record of bytes `i * CHUNK_BYTES ..` is; there is one a chunk, the
//!   last perhaps partial. The root's value is the length.
//! - Bytes that are there change in [`LargeString::change`] alone, or nothing reads them yet.

use std::collections::BTreeMap;
use std::ops::Range;

use base::{ObjectId, RecordAddr, RecordKind, varint};

use super::CHUNK_BYTES;
use crate::hasher::KeyHasher;
use crate::object::Large;
use crate::recorder::Recorder;
use crate::walk::{PART_BYTES_MAX, Stream};

/// What an old chunk takes besides its bytes.
const OLD_BYTES: usize = 48;

/// See the file's top.
pub(crate) struct LargeString {
    bytes: Vec<u8>,
    chunks: Vec<Option<RecordAddr>>,
    /// While a walk emits it.
    shadow: Option<Box<Shadow>>,
}

/// The string as it was when a walk came to it, or when it was changed before that. Strings do not
/// shrink.
struct Shadow {
    /// How long it was.
    len: usize,
    /// How much of it was emitted, in whole chunks.
    visited: usize,
    /// Chunks that have changed since, as they were.
    old: BTreeMap<usize, Box<[u8]>>,
    bytes: usize,
}

impl Shadow {
    /// Keeps what is about to change in `range`.
    fn keep(&mut self, bytes: &[u8], range: Range<usize>) {
        let (from, to) = (range.start.max(self.visited), range.end.min(self.len));
        if from >= to {
            return;
        }
        for index in from / CHUNK_BYTES..to.div_ceil(CHUNK_BYTES) {
            let chunk = &bytes[index * CHUNK_BYTES..self.len.min((index + 1) * CHUNK_BYTES)];
            self.old.entry(index).or_insert_with(|| {
                self.bytes += OLD_BYTES + chunk.len();
                chunk.into()
            });
        }
    }

    /// Emits the next chunk, which is in `bytes` if it has not changed.
    fn emit_chunk(&mut self, bytes: &[u8], stream: &mut Stream) {
        let to = self.len.min(self.visited + CHUNK_BYTES);
        match self.old.remove(&(self.visited / CHUNK_BYTES)) {
            None => stream.part(&bytes[self.visited..to]),
            Some(old) => {
                self.bytes -= OLD_BYTES + old.len();
                stream.part(&old);
            }
        }
        self.visited = to;
    }
}

impl LargeString {
    /// A string of these bytes, its chunks logged.
    pub(super) fn new(id: ObjectId, recorder: &mut Recorder, bytes: Vec<u8>) -> Self {
        let mut string = Self { bytes, ..Self::empty() };
        string.log(id, recorder, 0..string.bytes.len());
        string
    }

    /// The bytes that it may have before it is moved.
    pub(crate) const fn room_bytes(&self) -> usize {
        self.bytes.capacity()
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Makes the string `len` bytes long at least, lets `change` change the bytes of `range`, and logs
    /// that. Returns the new length.
    pub(super) fn change(
        &mut self,
        id: ObjectId,
        recorder: &mut Recorder,
        len: usize,
        range: Range<usize>,
        change: impl FnOnce(&mut [u8]),
    ) -> usize {
        if let Some(shadow) = &mut self.shadow {
            shadow.keep(&self.bytes, range.clone());
        }
        let old_len = self.bytes.len();
        self.bytes.resize(len.max(old_len), 0);
        change(&mut self.bytes[range.clone()]);
        let len = self.bytes.len();
        // Zeros that were appended before the range are a change too.
        let changed = if len > old_len { range.start.min(old_len)..len } else { range };
        self.log(id, recorder, changed);
        len
    }

    fn chunk(&self, index: usize) -> &[u8] {
        let from = index * CHUNK_BYTES;
        &self.bytes[from..self.bytes.len().min(from + CHUNK_BYTES)]
    }

    /// Logs the chunks that the bytes of `changed` lie in.
    fn log(&mut self, id: ObjectId, recorder: &mut Recorder, changed: Range<usize>) {
        self.chunks.resize(self.bytes.len().div_ceil(CHUNK_BYTES), None);
        for index in changed.start / CHUNK_BYTES..changed.end.div_ceil(CHUNK_BYTES) {
            let sub = chunk_number(index).to_be_bytes();
            let old = self.chunks[index];
            let kind = RecordKind::StringChunk;
            self.chunks[index] = recorder.log_element(kind, id, &sub, self.chunk(index), old);
        }
    }
}

fn chunk_number(index: usize) -> u32 {
    u32::try_from(index).expect("the protocol bounds a string far below 2^32 chunks")
}

impl Large for LargeString {
    fn empty() -> Self {
        Self { bytes: Vec::new(), chunks: Vec::new(), shadow: None }
    }

    fn root_value(&self, out: &mut Vec<u8>) {
        varint::put(out, self.bytes.len() as u64);
    }

    fn apply_root(&mut self, mut value: &[u8]) {
        let len = varint::take(&mut value).and_then(|len| usize::try_from(len).ok());
        let len = len.expect("the log checked its records");
        self.bytes.resize(len, 0);
        self.chunks.resize(len.div_ceil(CHUNK_BYTES), None);
    }

    fn gather(
        &mut self,
        _: KeyHasher,
        sub: &[u8],
        value: &[u8],
        addr: RecordAddr,
    ) -> Option<RecordAddr> {
        let index = sub.try_into().map(u32::from_be_bytes).expect("the log checked its records");
        let (index, from) = (index as usize, index as usize * CHUNK_BYTES);
        if self.bytes.len() < from + value.len() {
            self.bytes.resize(from + value.len(), 0);
        }
        self.chunks.resize(self.bytes.len().div_ceil(CHUNK_BYTES), None);
        self.bytes[from..from + value.len()].copy_from_slice(value);
        self.chunks[index].replace(addr)
    }

    fn gather_deleted(&mut self, _: KeyHasher, _: &[u8]) -> Option<RecordAddr> {
        None
    }

    fn arrange(&mut self, _: KeyHasher) {
        self.bytes.shrink_to_fit();
    }

    fn len(&self) -> usize {
        self.chunks.len()
    }

    fn duplicate(&self, id: ObjectId, recorder: &mut Recorder) -> Self {
        Self::new(id, recorder, self.bytes.clone())
    }

    fn rewrite(&mut self, id: ObjectId, recorder: &mut Recorder, piece: usize) -> Option<usize> {
        let from = piece * CHUNK_BYTES;
        if from >= self.bytes.len() {
            return None;
        }
        if let Some(addr) = self.chunks.get_mut(piece) {
            *addr = None;
        }
        self.log(id, recorder, from..self.bytes.len().min(from + CHUNK_BYTES));
        Some(1)
    }

    fn rewrite_lost(
        &mut self,
        id: ObjectId,
        recorder: &mut Recorder,
        piece: usize,
        is_lost: &dyn Fn(RecordAddr) -> bool,
    ) -> Option<usize> {
        let chunk = self.chunks.get(piece)?;
        if chunk.is_some_and(is_lost) {
            let from = piece * CHUNK_BYTES;
            self.log(id, recorder, from..self.bytes.len().min(from + CHUNK_BYTES));
        }
        Some(1)
    }

    fn encoding(&self) -> &'static str {
        "raw"
    }

    fn into_addrs(self) -> Box<dyn Iterator<Item = Option<RecordAddr>> + Send> {
        Box::new(self.chunks.into_iter())
    }

    fn allocated_bytes(&self, _samples: usize) -> usize {
        self.bytes.capacity() + self.chunks.capacity() * size_of::<RecordAddr>()
    }

    fn walked_count(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn open_shadow(&mut self) {
        let (len, visited) = (self.bytes.len(), 0);
        let shadow = Shadow { len, visited, old: BTreeMap::new(), bytes: 0 };
        self.shadow = Some(Box::new(shadow));
    }

    fn shadow_bytes(&self) -> Option<usize> {
        self.shadow.as_ref().map(|shadow| shadow.bytes)
    }

    fn emit(&mut self, _: KeyHasher, stream: &mut Stream) -> bool {
        let Some(shadow) = &mut self.shadow else { return true };
        while shadow.visited < shadow.len {
            if stream.is_spent() {
                return false;
            }
            shadow.emit_chunk(&self.bytes, stream);
        }
        self.shadow = None;
        true
    }

    fn emit_whole(&self, stream: &mut Stream) {
        self.bytes.chunks(PART_BYTES_MAX).for_each(|part| stream.part(part));
    }
}
