//! Large values: what is too big to lie inline in its key's entry.
//!
//! An object has an incarnation ([`ObjectId`]), by which its elements' records name it, and a
//! body. The key's entry owns it and holds the address of its root record; the elements hold the
//! addresses of theirs.

use base::{Lsn, ObjectId, Record, RecordAddr, RecordKind};

use crate::hash::LargeHash;
use crate::hasher::KeyHasher;
use crate::list::LargeList;
use crate::recorder::Recorder;
use crate::set::LargeSet;
use crate::stream::LargeStream;
use crate::string::LargeString;
use crate::value_type::Type;
use crate::walk::Stream;
use crate::zset::LargeZSet;

/// What the body of an object does for log and recovery, whatever its type.
pub(crate) trait Large: Sized {
    /// A body without elements.
    fn empty() -> Self;

    /// Writes the value of the root record: whatever is not in the elements.
    fn root_value(&self, out: &mut Vec<u8>);

    /// Takes over the value of a root record.
    fn apply_root(&mut self, value: &[u8]);

    /// Takes over an element's record into a body that nothing reads before [`Large::arrange`].
    /// Returns the address of the record that it supersedes.
    fn gather(
        &mut self,
        hasher: KeyHasher,
        sub: &[u8],
        value: &[u8],
        addr: RecordAddr,
    ) -> Option<RecordAddr>;

    /// As [`Large::gather`], of a record that says that the element is gone.
    fn gather_deleted(&mut self, hasher: KeyHasher, sub: &[u8]) -> Option<RecordAddr>;

    /// Called once, after the last record that is gathered: builds what is cheaper to build at once.
    fn arrange(&mut self, _hasher: KeyHasher) {}

    /// Takes over an element's record into a body that is read. Returns the address of the record
    /// that it supersedes.
    fn apply_element(
        &mut self,
        hasher: KeyHasher,
        sub: &[u8],
        value: &[u8],
        addr: RecordAddr,
    ) -> Option<RecordAddr> {
        self.gather(hasher, sub, value, addr)
    }

    /// As [`Large::apply_element`], of a record that says that the element is gone.
    fn apply_deleted(&mut self, hasher: KeyHasher, sub: &[u8]) -> Option<RecordAddr> {
        self.gather_deleted(hasher, sub)
    }

    /// How many elements there are.
    fn len(&self) -> usize;

    /// A copy under the incarnation `id`, its elements logged.
    fn duplicate(&self, id: ObjectId, recorder: &mut Recorder) -> Self;

    /// Logs some elements anew, under the incarnation `id`, whatever records they had: those of
    /// the `piece`th piece. How many they were; `None` when there are fewer pieces.
    fn rewrite(&mut self, id: ObjectId, recorder: &mut Recorder, piece: usize) -> Option<usize>;

    /// Logs those elements of the `piece`th piece anew whose records are where `is_lost` says. How
    /// many elements the piece has; `None` when there are fewer pieces.
    fn rewrite_lost(
        &mut self,
        id: ObjectId,
        recorder: &mut Recorder,
        piece: usize,
        is_lost: &dyn Fn(RecordAddr) -> bool,
    ) -> Option<usize>;

    /// The name that OBJECT ENCODING answers.
    fn encoding(&self) -> &'static str;

    /// Takes the body apart, element by element, yielding the addresses of their records.
    fn into_addrs(self) -> Box<dyn Iterator<Item = Option<RecordAddr>> + Send>;

    /// The bytes that the body takes, without its own size; an estimate from a sample of at most
    /// `samples` elements (0: all).
    fn allocated_bytes(&self, samples: usize) -> usize;

    /// How many elements a walk emits; of a string, how many bytes.
    fn walked_count(&self) -> u64 {
        self.len() as u64
    }

    /// From now on what changes is kept as it is now, until [`Large::emit`] has emitted it.
    fn open_shadow(&mut self);

    /// The bytes that are kept; `None` if nothing is to be emitted.
    fn shadow_bytes(&self) -> Option<usize>;

    /// Emits further elements, as they were when the shadow was opened, until the step has done what it
    /// may. Whether these were the last; the shadow is closed then.
    fn emit(&mut self, hasher: KeyHasher, stream: &mut Stream) -> bool;

    /// Emits all elements as they are.
    fn emit_whole(&self, stream: &mut Stream);
}

/// The bodies that objects have.
pub(crate) enum Body {
    /// A string in chunks.
    String(LargeString),
    /// A list of packed nodes.
    List(LargeList),
    /// A hash with an entry a field.
    Hash(LargeHash),
    /// A set with an entry a member.
    Set(LargeSet),
    /// A sorted set with an entry a member.
    ZSet(LargeZSet),
    /// A stream of nodes and groups.
    Stream(LargeStream),
}

/// Calls a method of [`Large`] on whichever body it is.
macro_rules! body {
    ($body:expr, $inner:ident => $call:expr) => {
        match $body {
            Body::String($inner) => $call,
            Body::List($inner) => $call,
            Body::Hash($inner) => $call,
            Body::Set($inner) => $call,
            Body::ZSet($inner) => $call,
            Body::Stream($inner) => $call,
        }
    };
}

/// A large value.
pub(crate) struct Object {
    id: ObjectId,
    /// The LSN of the newest change of any element: what a strict read of the object depends on.
    pub(crate) changed_at: Lsn,
    pub(crate) body: Body,
}

impl Object {
    /// An object of the incarnation `id`.
    pub(crate) const fn new(id: ObjectId, body: Body) -> Self {
        Self { id, changed_at: Lsn::ZERO, body }
    }

    /// An empty value of a type that is an object from its first element on.
    pub(crate) fn begin(value_type: Type, recorder: &mut Recorder) -> Box<Self> {
        let body = match value_type {
            Type::Stream => Body::Stream(LargeStream::empty()),
            _ => unreachable!("the others are packed at first"),
        };
        Box::new(Self::new(recorder.new_object_id(), body))
    }

    /// A stream without elements whose root is known.
    pub(crate) fn rooted_stream(id: ObjectId) -> Self {
        Self::new(id, Body::Stream(LargeStream::rooted()))
    }

    /// Of a stream the last node alone was read.
    pub(crate) fn note_partial_unit(&mut self) {
        if let Body::Stream(stream) = &mut self.body {
            stream.note_partial_unit();
        }
    }

    /// An object without elements, as a root's or an element's record names it first.
    pub(crate) fn of_record(id: ObjectId, kind: RecordKind) -> Option<Self> {
        let body = match kind {
            RecordKind::LargeString | RecordKind::StringChunk => Body::String(LargeString::empty()),
            RecordKind::List | RecordKind::ListNode => Body::List(LargeList::empty()),
            RecordKind::Hash | RecordKind::HashField => Body::Hash(LargeHash::empty()),
            RecordKind::Set | RecordKind::SetMember => Body::Set(LargeSet::empty()),
            RecordKind::ZSet | RecordKind::ZSetMember => Body::ZSet(LargeZSet::empty()),
            RecordKind::Stream
            | RecordKind::StreamNode
            | RecordKind::StreamGroup
            | RecordKind::StreamConsumer
            | RecordKind::StreamPending
            | RecordKind::StreamProducer => Body::Stream(LargeStream::empty()),
            _ => return None,
        };
        Some(Self::new(id, body))
    }

    /// Whether a root's or an element's record of this kind can be of this object.
    pub(crate) const fn is_of(&self, kind: RecordKind) -> bool {
        use RecordKind as K;
        matches!(
            (&self.body, kind),
            (Body::String(_), K::LargeString | K::StringChunk)
                | (Body::List(_), K::List | K::ListNode)
                | (Body::Hash(_), K::Hash | K::HashField)
                | (Body::Set(_), K::Set | K::SetMember)
                | (Body::ZSet(_), K::ZSet | K::ZSetMember)
                | (
                    Body::Stream(_),
                    K::Stream
                        | K::StreamNode
                        | K::StreamGroup
                        | K::StreamConsumer
                        | K::StreamPending
                        | K::StreamProducer
                )
        )
    }

    /// The incarnation.
    pub(crate) const fn id(&self) -> ObjectId {
        self.id
    }

    /// The type that the value has for clients.
    pub(crate) const fn value_type(&self) -> Type {
        match self.body {
            Body::String(_) => Type::String,
            Body::List(_) => Type::List,
            Body::Hash(_) => Type::Hash,
            Body::Set(_) => Type::Set,
            Body::ZSet(_) => Type::ZSet,
            Body::Stream(_) => Type::Stream,
        }
    }

    /// The kind of the root record.
    pub(crate) const fn root_kind(&self) -> RecordKind {
        match self.body {
            Body::String(_) => RecordKind::LargeString,
            Body::List(_) => RecordKind::List,
            Body::Hash(_) => RecordKind::Hash,
            Body::Set(_) => RecordKind::Set,
            Body::ZSet(_) => RecordKind::ZSet,
            Body::Stream(_) => RecordKind::Stream,
        }
    }

    /// Writes the value of the root record.
    pub(crate) fn root_value(&self, out: &mut Vec<u8>) {
        out.clear();
        body!(&self.body, inner => inner.root_value(out));
    }

    /// See [`Large::apply_root`].
    pub(crate) fn apply_root(&mut self, value: &[u8]) {
        body!(&mut self.body, inner => inner.apply_root(value));
    }

    /// See [`Large::apply_element`], and [`Large::gather`] if `is_gathering`. The record was checked, and is of
    /// this object.
    pub(crate) fn apply_element(
        &mut self,
        hasher: KeyHasher,
        record: &Record<'_>,
        addr: RecordAddr,
        is_gathering: bool,
    ) -> Option<RecordAddr> {
        let (sub, value) = (record.sub, record.value);
        if let (Some(at_ms), Body::Hash(hash)) = (record.expires_at_ms, &mut self.body) {
            return hash.apply_expiring(hasher, sub, value, at_ms, addr);
        }
        if is_gathering {
            body!(&mut self.body, inner => inner.gather(hasher, sub, value, addr))
        } else {
            body!(&mut self.body, inner => inner.apply_element(hasher, sub, value, addr))
        }
    }

    /// See [`Large::apply_deleted`], and [`Large::gather_deleted`] if `is_gathering`.
    pub(crate) fn apply_deleted(
        &mut self,
        hasher: KeyHasher,
        sub: &[u8],
        is_gathering: bool,
    ) -> Option<RecordAddr> {
        if is_gathering {
            body!(&mut self.body, inner => inner.gather_deleted(hasher, sub))
        } else {
            body!(&mut self.body, inner => inner.apply_deleted(hasher, sub))
        }
    }

    /// Whether it is a stream whose newest root names another node as the last one.
    pub(crate) fn has_stale_root(&self) -> bool {
        matches!(&self.body, Body::Stream(stream) if stream.has_stale_root())
    }

    /// Its root was logged as it is now, apart from any change: of a stream that says which node is the last one.
    pub(crate) fn note_root(&mut self) {
        if let Body::Stream(stream) = &mut self.body {
            stream.note_root();
        }
    }

    /// Whether it is a hash that has, or had, fields that expire.
    pub(crate) const fn has_expiring_fields(&self) -> bool {
        matches!(&self.body, Body::Hash(hash) if hash.has_expiring_fields())
    }

    /// When the first field expires, of a hash that has some that do.
    pub(crate) fn first_expiry_ms(&self) -> Option<i64> {
        match &self.body {
            Body::Hash(hash) => hash.first_expiry_ms(),
            _ => None,
        }
    }

    /// See [`Large::arrange`].
    pub(crate) fn arrange(&mut self, hasher: KeyHasher) {
        body!(&mut self.body, inner => inner.arrange(hasher));
    }

    /// How many elements there are.
    pub(crate) fn len(&self) -> usize {
        body!(&self.body, inner => inner.len())
    }

    /// A copy under a new incarnation, its elements logged, its root not yet.
    pub(crate) fn duplicate(&self, recorder: &mut Recorder) -> Self {
        let id = recorder.new_object_id();
        let body = match &self.body {
            Body::String(body) => Body::String(body.duplicate(id, recorder)),
            Body::List(body) => Body::List(body.duplicate(id, recorder)),
            Body::Hash(body) => Body::Hash(body.duplicate(id, recorder)),
            Body::Set(body) => Body::Set(body.duplicate(id, recorder)),
            Body::ZSet(body) => Body::ZSet(body.duplicate(id, recorder)),
            Body::Stream(body) => Body::Stream(body.duplicate(id, recorder)),
        };
        Self { id, changed_at: recorder.open_lsn(), body }
    }

    /// Takes a new incarnation, for [`Object::rewrite`].
    pub(crate) fn renew(&mut self, recorder: &mut Recorder) {
        self.id = recorder.new_object_id();
        self.changed_at = Lsn::ZERO;
    }

    /// See [`Large::rewrite`].
    pub(crate) fn rewrite(&mut self, recorder: &mut Recorder, piece: usize) -> Option<usize> {
        let id = self.id;
        body!(&mut self.body, inner => inner.rewrite(id, recorder, piece))
    }

    /// See [`Large::rewrite_lost`].
    pub(crate) fn rewrite_lost(
        &mut self,
        recorder: &mut Recorder,
        piece: usize,
        is_lost: &dyn Fn(RecordAddr) -> bool,
    ) -> Option<usize> {
        let id = self.id;
        body!(&mut self.body, inner => inner.rewrite_lost(id, recorder, piece, is_lost))
    }

    /// See [`Large::encoding`].
    pub(crate) fn encoding(&self) -> &'static str {
        body!(&self.body, inner => inner.encoding())
    }

    /// See [`Large::into_addrs`].
    pub(crate) fn into_addrs(self) -> Box<dyn Iterator<Item = Option<RecordAddr>> + Send> {
        body!(self.body, inner => inner.into_addrs())
    }

    /// The bytes that the object takes; see [`Large::allocated_bytes`].
    pub(crate) fn allocated_bytes(&self, samples: usize) -> usize {
        size_of::<Self>() + body!(&self.body, inner => inner.allocated_bytes(samples))
    }

    /// See [`Large::walked_count`].
    pub(crate) fn walked_count(&self) -> u64 {
        body!(&self.body, inner => inner.walked_count())
    }

    /// See [`Large::open_shadow`].
    pub(crate) fn open_shadow(&mut self) {
        body!(&mut self.body, inner => inner.open_shadow());
    }

    /// See [`Large::shadow_bytes`].
    pub(crate) fn shadow_bytes(&self) -> Option<usize> {
        body!(&self.body, inner => inner.shadow_bytes())
    }

    /// Whether a walk has still to emit elements as they were.
    pub(crate) fn is_shadowed(&self) -> bool {
        self.shadow_bytes().is_some()
    }

    /// See [`Large::emit`].
    pub(crate) fn emit(&mut self, hasher: KeyHasher, stream: &mut Stream) -> bool {
        body!(&mut self.body, inner => inner.emit(hasher, stream))
    }

    /// See [`Large::emit_whole`].
    pub(crate) fn emit_whole(&self, stream: &mut Stream) {
        body!(&self.body, inner => inner.emit_whole(stream));
    }
}

#[cfg(test)]
impl Object {
    /// An object for tests of what holds objects.
    pub(crate) fn for_test(id: u64) -> Self {
        Self::new(ObjectId(id), Body::String(LargeString::empty()))
    }
}
