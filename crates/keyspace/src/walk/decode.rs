//! Reading what a walk has emitted, chunk by chunk, on any thread.

use std::error::Error;

use base::varint;

use super::stream::{
    BYTES, ELEMENT, END, EXPIRES, FINISH, LARGE, MAY_EXPIRE, NODE, NUMBER, PACKED, PART, SMALL,
};
use crate::packed::{EXPIRING_FIELDS, Packed};
use crate::stream::StreamRoot;
use crate::value_type::Type;

/// A key, before its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key<'a> {
    /// The index that its database had at the trigger.
    pub database: u32,
    /// Its name.
    pub key: &'a [u8],
    /// What its value is.
    pub value_type: Type,
    /// How many elements follow; of a string, how many bytes.
    pub count: u64,
    /// When it expires, in Unix milliseconds; what had expired and was not deleted yet is emitted as well.
    pub expires_at_ms: Option<i64>,
    /// Whether it is a hash that has fields that expire, or had.
    pub has_expiring_fields: bool,
    /// The 24 bits that eviction keeps of its use: when, or how often, as the policy says.
    pub access: u32,
}

/// A part of a value.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Element<'a> {
    /// The next bytes of a string.
    Part(&'a [u8]),
    /// The next item of a list.
    Item(&'a [u8]),
    /// A member of a set.
    Member(&'a [u8]),
    /// A member of a sorted set, and its score.
    Scored(&'a [u8], f64),
    /// A field of a hash, its value, and when it expires, in Unix milliseconds.
    Field(&'a [u8], &'a [u8], Option<i64>),
    /// What a stream says of all its entries, before its records.
    Stream(StreamRoot),
    /// What a record of a stream has: the name that it has there, and its value: see [`crate::stream::StreamRecord`].
    Record(&'a [u8], &'a [u8]),
}

/// What takes the keys of a walk: each key, its elements, its end. Keys come in any order, and so do
/// the elements of sets, sorted sets and hashes.
pub trait Visitor {
    /// Why it refuses what it is given.
    type Error: Error + 'static;

    /// Begins a key. A string of no bytes has no part.
    ///
    /// # Errors
    /// When it cannot be taken.
    fn begin(&mut self, key: &Key<'_>) -> Result<(), Self::Error>;

    /// Takes a part of the value of the key.
    ///
    /// # Errors
    /// When it cannot be taken.
    fn element(&mut self, element: Element<'_>) -> Result<(), Self::Error>;

    /// Ends the key: all that was announced has come.
    ///
    /// # Errors
    /// When it cannot be taken.
    fn end(&mut self) -> Result<(), Self::Error>;
}

/// Why chunks were not read to their end.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError<E: Error + 'static> {
    /// The chunks are not those of a walk, in their order.
    #[error("the chunks of a walk have {0}")]
    Malformed(&'static str),
    /// The visitor refuses what it was given.
    #[error(transparent)]
    Refused(E),
}

/// The key that was begun.
struct Open {
    value_type: Type,
    /// Nothing of it has come.
    is_new: bool,
    /// So many elements, or bytes, are still to come.
    left: u64,
}

/// Reads the chunks of one walk, in their order.
#[derive(Default)]
pub struct Decoder {
    open: Option<Open>,
    keys: u64,
    is_finished: bool,
}

impl Decoder {
    /// Reads the next chunk.
    ///
    /// # Errors
    /// When the visitor refuses something, or the chunk is not the next one of a walk.
    pub fn decode<V: Visitor>(
        &mut self,
        chunk: &[u8],
        visitor: &mut V,
    ) -> Result<(), DecodeError<V::Error>> {
        let mut rest = chunk;
        while let Some(token) = take_byte(&mut rest) {
            if self.is_finished {
                return Err(DecodeError::Malformed("something behind their end"));
            }
            match token & !EXPIRES {
                SMALL => self.small(token, &mut rest, visitor)?,
                LARGE => self.large(token, &mut rest, visitor)?,
                PART | NODE | ELEMENT => self.element(token, &mut rest, visitor)?,
                END => self.end(visitor)?,
                FINISH => self.finish(&mut rest)?,
                _ => return Err(DecodeError::Malformed("an unknown token")),
            }
        }
        Ok(())
    }

    /// Whether the walk was read to its end: every key that there was at the trigger has come. Chunks
    /// that end before are those of a walk that was not completed.
    #[must_use]
    pub const fn is_finished(&self) -> bool {
        self.is_finished
    }

    /// How many keys have come.
    #[must_use]
    pub const fn keys(&self) -> u64 {
        self.keys
    }

    fn finish<E: Error>(&mut self, rest: &mut &[u8]) -> Result<(), DecodeError<E>> {
        let keys = varint::take(rest).ok_or(CUT)?;
        if self.open.is_some() || keys != self.keys {
            return Err(DecodeError::Malformed("more or fewer keys than there were"));
        }
        self.is_finished = true;
        Ok(())
    }

    fn small<V: Visitor>(
        &mut self,
        token: u8,
        rest: &mut &[u8],
        visitor: &mut V,
    ) -> Result<(), DecodeError<V::Error>> {
        let kind = take_byte(rest).ok_or(CUT)?;
        let value_type = match kind {
            BYTES | NUMBER => Type::String,
            packed => *Type::ALL.get(usize::from(packed - PACKED)).ok_or(CUT)?,
        };
        let mut key = self.key(token, value_type, rest)?;
        let payload = varint::take_bytes(rest).ok_or(CUT)?;
        let refused = DecodeError::Refused;
        if value_type == Type::String {
            let mut digits = itoa::Buffer::new();
            let text = match kind {
                BYTES => payload,
                NUMBER => digits
                    .format(i64::from_le_bytes(payload.try_into().map_err(|_| CUT)?))
                    .as_bytes(),
                _ => return Err(DecodeError::Malformed("a string that is packed")),
            };
            key.count = text.len() as u64;
            visitor.begin(&key).map_err(refused)?;
            if !text.is_empty() {
                visitor.element(Element::Part(text)).map_err(refused)?;
            }
        } else {
            let flags = *payload.first().ok_or(CUT)?;
            key.has_expiring_fields = value_type == Type::Hash && flags & EXPIRING_FIELDS != 0;
            let arity = arity(value_type) + usize::from(key.has_expiring_fields);
            let packed = Packed::check(payload, arity).ok_or(CUT)?;
            key.count = packed.count() as u64 / arity as u64;
            visitor.begin(&key).map_err(refused)?;
            let mut elements = packed.iter();
            while let Some(name) = elements.next() {
                let value = if arity >= 2 { elements.next() } else { None };
                let expiry = if arity >= 3 { elements.next() } else { None };
                let expiry = expiry.and_then(|expiry| expiry.try_into().ok());
                let at_ms = expiry.map(i64::from_le_bytes);
                let value = value.unwrap_or_default();
                let element = element(value_type, name, value, at_ms).ok_or(CUT)?;
                visitor.element(element).map_err(refused)?;
            }
        }
        self.keys += 1;
        visitor.end().map_err(refused)
    }

    fn large<V: Visitor>(
        &mut self,
        token: u8,
        rest: &mut &[u8],
        visitor: &mut V,
    ) -> Result<(), DecodeError<V::Error>> {
        let number = take_byte(rest).ok_or(CUT)?;
        let value_type = *Type::ALL.get(usize::from(number & !MAY_EXPIRE)).ok_or(CUT)?;
        let mut key = self.key(token, value_type, rest)?;
        key.has_expiring_fields = number & MAY_EXPIRE != 0;
        key.count = varint::take(rest).ok_or(CUT)?;
        self.open = Some(Open { value_type, is_new: true, left: key.count });
        visitor.begin(&key).map_err(DecodeError::Refused)
    }

    fn key<'a, E: Error>(
        &self,
        token: u8,
        value_type: Type,
        rest: &mut &'a [u8],
    ) -> Result<Key<'a>, DecodeError<E>> {
        if self.open.is_some() {
            return Err(DecodeError::Malformed("a key in the middle of another one"));
        }
        let mut take = || {
            let database = u32::try_from(varint::take(rest)?).ok()?;
            let (access, behind) = rest.split_first_chunk::<3>()?;
            *rest = behind;
            let expires_at_ms = if token & EXPIRES == 0 {
                None
            } else {
                let (at_ms, behind) = rest.split_first_chunk()?;
                *rest = behind;
                Some(i64::from_le_bytes(*at_ms))
            };
            let key = varint::take_bytes(rest)?;
            let access = u32::from_le_bytes([access[0], access[1], access[2], 0]);
            let has_expiring_fields = false;
            Some(Key {
                database,
                key,
                value_type,
                count: 0,
                expires_at_ms,
                has_expiring_fields,
                access,
            })
        };
        take().ok_or(CUT.into())
    }

    fn element<V: Visitor>(
        &mut self,
        token: u8,
        rest: &mut &[u8],
        visitor: &mut V,
    ) -> Result<(), DecodeError<V::Error>> {
        let open = self.open.as_mut().ok_or(Malformed("an element of no key"))?;
        let refused = DecodeError::Refused;
        let is_first = std::mem::take(&mut open.is_new);
        let mut take_left = |count: usize| {
            open.left = open.left.checked_sub(count as u64).ok_or(MORE)?;
            Ok::<(), Malformed>(())
        };
        let bytes = varint::take_bytes(rest).ok_or(CUT)?;
        let does_expire = token & EXPIRES != 0;
        match (token & !EXPIRES, open.value_type) {
            (PART, Type::String) => {
                take_left(bytes.len())?;
                visitor.element(Element::Part(bytes)).map_err(refused)
            }
            (NODE, Type::List) => {
                let items = Packed::check(bytes, 1).ok_or(CUT)?;
                take_left(items.count())?;
                items
                    .iter()
                    .try_for_each(|item| visitor.element(Element::Item(item)).map_err(refused))
            }
            (ELEMENT, Type::Stream) if is_first => {
                let root = varint::take_bytes(rest).ok_or(CUT)?;
                let units = varint::take(&mut &bytes[..]).ok_or(CUT)?;
                take_left(1)?;
                let root = StreamRoot::read(root, units).ok_or(CUT)?;
                visitor.element(Element::Stream(root)).map_err(refused)
            }
            (ELEMENT, value_type) => {
                let value = varint::take_bytes(rest).ok_or(CUT)?;
                let at_ms = if does_expire {
                    let (at_ms, behind) = rest.split_first_chunk().ok_or(CUT)?;
                    *rest = behind;
                    Some(i64::from_le_bytes(*at_ms))
                } else {
                    None
                };
                take_left(1)?;
                let element = element(value_type, bytes, value, at_ms).ok_or(CUT)?;
                visitor.element(element).map_err(refused)
            }
            _ => Err(DecodeError::Malformed("an element of another type")),
        }
    }

    fn end<V: Visitor>(&mut self, visitor: &mut V) -> Result<(), DecodeError<V::Error>> {
        let open = self.open.take().ok_or(Malformed("the end of no key"))?;
        if open.left > 0 {
            return Err(DecodeError::Malformed("fewer elements than were announced"));
        }
        self.keys += 1;
        visitor.end().map_err(DecodeError::Refused)
    }
}

/// What is wrong with a chunk.
struct Malformed(&'static str);

const CUT: Malformed = Malformed("a token that is cut off");
const MORE: Malformed = Malformed("more elements than were announced");

impl<E: Error> From<Malformed> for DecodeError<E> {
    fn from(malformed: Malformed) -> Self {
        Self::Malformed(malformed.0)
    }
}

fn take_byte(rest: &mut &[u8]) -> Option<u8> {
    let (byte, behind) = rest.split_first()?;
    *rest = behind;
    Some(*byte)
}

/// How many packed elements make one of a value of this type.
const fn arity(value_type: Type) -> usize {
    match value_type {
        Type::Hash | Type::ZSet => 2,
        Type::String | Type::List | Type::Set | Type::Stream => 1,
    }
}

fn element<'a>(
    value_type: Type,
    name: &'a [u8],
    value: &'a [u8],
    at_ms: Option<i64>,
) -> Option<Element<'a>> {
    match value_type {
        Type::List => Some(Element::Item(name)),
        Type::Set => Some(Element::Member(name)),
        Type::Hash => Some(Element::Field(name, value, at_ms)),
        Type::ZSet => Some(Element::Scored(name, f64::from_le_bytes(value.try_into().ok()?))),
        Type::Stream => Some(Element::Record(name, value)),
        Type::String => None,
    }
}
