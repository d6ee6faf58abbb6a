//! What a dump has told, and what a keyspace has, comparable.

use std::collections::BTreeMap;
use std::convert::Infallible;

use dump::{DumpedKey, Element, Target};
use keyspace::{Contents, Keyspace, Type};

/// A value, comparable.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    String(Vec<u8>),
    List(Vec<Vec<u8>>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Set(BTreeMap<Vec<u8>, ()>),
    ZSet(BTreeMap<Vec<u8>, u64>),
}

/// A key in its database.
pub(crate) type Name = (u32, Vec<u8>);

pub(crate) type All = BTreeMap<Name, (Option<i64>, Value)>;

/// Keeps what it is given, and checks the order in which it comes.
#[derive(Default)]
pub(crate) struct Kept {
    pub(crate) all: All,
    open: Option<(Name, Option<i64>, Value, u64)>,
}

impl Target for Kept {
    type Error = Infallible;

    fn begin(&mut self, key: &DumpedKey<'_>) -> Result<(), Infallible> {
        assert!(self.open.is_none(), "one after the other");
        let value = match key.value_type {
            Type::String => Value::String(Vec::new()),
            Type::List => Value::List(Vec::new()),
            Type::Hash => Value::Hash(BTreeMap::new()),
            Type::Set => Value::Set(BTreeMap::new()),
            Type::ZSet => Value::ZSet(BTreeMap::new()),
            Type::Stream => unreachable!("not made here"),
        };
        self.open = Some(((key.database, key.key.to_vec()), key.expires_at_ms, value, key.count));
        Ok(())
    }

    fn element(&mut self, element: Element<'_>) -> Result<(), Infallible> {
        let (.., value, left) = self.open.as_mut().unwrap();
        let is_new = match (element, value) {
            (Element::Part(bytes), Value::String(string)) => {
                string.extend_from_slice(bytes);
                assert!(!bytes.is_empty());
                *left += 1;
                *left -= bytes.len() as u64;
                true
            }
            (Element::Item(item), Value::List(items)) => {
                items.push(item.to_vec());
                true
            }
            (Element::Field(name, value, expires_at_ms), Value::Hash(fields)) => {
                fields.insert(name.to_vec(), timed(value, expires_at_ms)).is_none()
            }
            (Element::Member(member), Value::Set(members)) => {
                members.insert(member.to_vec(), ()).is_none()
            }
            (Element::Scored(member, score), Value::ZSet(members)) => {
                members.insert(member.to_vec(), score.to_bits()).is_none()
            }
            (element, value) => panic!("{element:?} of {value:?}"),
        };
        assert!(is_new, "an element came twice");
        *left -= 1;
        Ok(())
    }

    fn end(&mut self) -> Result<(), Infallible> {
        let (key, expires_at_ms, value, left) = self.open.take().unwrap();
        assert_eq!(left, 0, "as many as were announced");
        assert!(self.all.insert(key, (expires_at_ms, value)).is_none(), "a key came twice");
        Ok(())
    }
}

/// The value of a field, and when it expires if it does.
fn timed(value: &[u8], expires_at_ms: Option<i64>) -> Vec<u8> {
    let until = expires_at_ms.map(|at_ms| format!(" until {at_ms}")).unwrap_or_default();
    [value, until.as_bytes()].concat()
}

/// What a keyspace has.
pub(crate) fn contents(keyspace: &Keyspace) -> All {
    let mut all = All::new();
    for (index, db) in (0..).zip(keyspace.databases()) {
        keyspace.inspect(db, |entry| {
            let value = match entry.contents {
                Contents::String(string) => {
                    Value::String(string.as_bytes(&mut itoa::Buffer::new()).to_vec())
                }
                Contents::List(list) => {
                    Value::List(list.iter_from(0).map(<[u8]>::to_vec).collect())
                }
                Contents::Hash(hash) => {
                    let mut fields = BTreeMap::new();
                    hash.for_each_field(|field| {
                        fields.insert(field.name.to_vec(), timed(field.value, field.expires_at_ms));
                    });
                    Value::Hash(fields)
                }
                Contents::Set(set) => {
                    Value::Set(set.iter().map(|member| (member.to_vec(), ())).collect())
                }
                Contents::ZSet(zset) => Value::ZSet(
                    zset.iter().map(|(member, score)| (member.to_vec(), score.to_bits())).collect(),
                ),
                Contents::Stream(_) => unreachable!("not made here"),
            };
            all.insert((index, entry.key.to_vec()), (entry.expires_at_ms, value));
        });
    }
    all
}
