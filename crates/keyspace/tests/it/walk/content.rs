//! What is in a keyspace, as a deep copy, and as a walk tells it.

use std::collections::BTreeMap;

use keyspace::walk::{Element, Key, Visitor};
use keyspace::{Contents, Keyspace, Type};

type Bytes = Vec<u8>;

/// A value; of sorted sets the bits of the scores.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    String(Bytes),
    List(Vec<Bytes>),
    /// Members of a set have no value.
    Elements(Type, BTreeMap<Bytes, Bytes>),
}

impl Value {
    fn new(value_type: Type) -> Self {
        match value_type {
            Type::String => Self::String(Bytes::new()),
            Type::List => Self::List(Vec::new()),
            other => Self::Elements(other, BTreeMap::new()),
        }
    }

    fn count(&self) -> u64 {
        let len = match self {
            Self::String(bytes) => bytes.len(),
            Self::List(items) => items.len(),
            Self::Elements(_, elements) => elements.len(),
        };
        len as u64
    }

    fn add(&mut self, element: Element<'_>) {
        let (own_type, name, value) = match (self, element) {
            (Self::String(bytes), Element::Part(part)) => return bytes.extend_from_slice(part),
            (Self::List(items), Element::Item(item)) => return items.push(item.to_vec()),
            (Self::Elements(Type::Set, elements), Element::Member(name)) => {
                (elements, name, Bytes::new())
            }
            (Self::Elements(Type::Hash, elements), Element::Field(name, value, at_ms)) => {
                (elements, name, [value, format!(" until {at_ms:?}").as_bytes()].concat())
            }
            (Self::Elements(Type::ZSet, elements), Element::Scored(name, score)) => {
                (elements, name, score.to_bits().to_le_bytes().to_vec())
            }
            (value, element) => panic!("{element:?} in {value:?}"),
        };
        assert!(own_type.insert(name.to_vec(), value).is_none(), "twice: {name:?}");
    }
}

/// A value and when it expires.
type Seen = (Value, Option<i64>);

/// Every key by database and name.
pub(super) type Content = BTreeMap<(u32, Bytes), Seen>;

/// A deep copy.
pub(super) fn of(keyspace: &Keyspace) -> Content {
    let mut content = Content::new();
    for db in keyspace.databases() {
        keyspace.inspect(db, |key| {
            let value = match key.contents {
                Contents::String(string) => {
                    Value::String(string.as_bytes(&mut itoa::Buffer::new()).to_vec())
                }
                Contents::List(list) => {
                    Value::List(list.iter_from(0).map(<[u8]>::to_vec).collect())
                }
                Contents::Hash(hash) => {
                    let mut value = Value::new(Type::Hash);
                    hash.for_each_field(|field| {
                        value.add(Element::Field(field.name, field.value, field.expires_at_ms));
                    });
                    value
                }
                Contents::Set(set) => {
                    let mut value = Value::new(Type::Set);
                    set.iter().for_each(|name| value.add(Element::Member(name)));
                    value
                }
                Contents::ZSet(set) => {
                    let mut value = Value::new(Type::ZSet);
                    set.iter().for_each(|(name, score)| value.add(Element::Scored(name, score)));
                    value
                }
                Contents::Stream(_) => unreachable!("not made here"),
            };
            let index = u32::try_from(db.get()).expect("few databases");
            content.insert((index, key.key.to_vec()), (value, key.expires_at_ms));
        });
    }
    content
}

/// Collects what a walk emits.
#[derive(Default)]
pub(super) struct Collector {
    content: Content,
    open: Option<((u32, Bytes), Seen, u64)>,
}

impl Collector {
    pub(super) fn into_content(self) -> Content {
        assert!(self.open.is_none(), "a key without an end");
        self.content
    }
}

/// Nothing is refused.
#[derive(Debug, thiserror::Error)]
#[error("never")]
pub(super) struct Never;

impl Visitor for Collector {
    type Error = Never;

    fn begin(&mut self, key: &Key<'_>) -> Result<(), Never> {
        assert!(self.open.is_none(), "a key in the middle of another one");
        let name = (key.database, key.key.to_vec());
        assert!(!self.content.contains_key(&name), "twice: {name:?}");
        self.open = Some((name, (Value::new(key.value_type), key.expires_at_ms), key.count));
        Ok(())
    }

    fn element(&mut self, element: Element<'_>) -> Result<(), Never> {
        let (_, (value, _), _) = self.open.as_mut().expect("a key was begun");
        value.add(element);
        Ok(())
    }

    fn end(&mut self) -> Result<(), Never> {
        let (name, seen, count) = self.open.take().expect("a key was begun");
        assert_eq!(seen.0.count(), count, "what was announced of {name:?}");
        self.content.insert(name, seen);
        Ok(())
    }
}
