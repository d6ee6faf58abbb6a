//! Keys as they lie in memory.

use keyspace::hash::Field;
use keyspace::stream::StreamRoot;
use keyspace::{Contents, Inspected, StringRef, Type};

use crate::target::{DumpedKey, Element, Target};

/// Passes a key on to a target. A number is passed on as its digits.
///
/// # Errors
/// Those of the target.
pub fn pass_on<T: Target>(
    entry: &Inspected<'_>,
    database: u32,
    target: &mut T,
) -> Result<(), T::Error> {
    let (value_type, count) = match &entry.contents {
        Contents::String(string) => (Type::String, string.len()),
        Contents::List(list) => (Type::List, list.len()),
        Contents::Hash(hash) => (Type::Hash, hash.len()),
        Contents::Set(set) => (Type::Set, set.len()),
        Contents::ZSet(zset) => (Type::ZSet, zset.len()),
        Contents::Stream(stream) => (Type::Stream, stream.unit_count()),
    };
    let (key, count, expires_at_ms) = (entry.key, count as u64, entry.expires_at_ms);
    let has_expiring_fields =
        matches!(&entry.contents, Contents::Hash(hash) if hash.has_expiring_fields());
    target.begin(&DumpedKey {
        database,
        key,
        value_type,
        count,
        expires_at_ms,
        has_expiring_fields,
    })?;
    match &entry.contents {
        Contents::String(StringRef::Int(number)) => {
            target.element(Element::Part(number.to_string().as_bytes()))?;
        }
        // A string of no bytes has no part.
        Contents::String(StringRef::Bytes([])) => {}
        Contents::String(StringRef::Bytes(bytes)) => target.element(Element::Part(bytes))?,
        Contents::List(list) => {
            list.iter_from(0).try_for_each(|item| target.element(Element::Item(item)))?;
        }
        Contents::Hash(hash) => {
            let mut passed = Ok(());
            hash.for_each_field(|field| {
                if passed.is_ok() {
                    let Field { name, value, expires_at_ms } = field;
                    passed = target.element(Element::Field(name, value, expires_at_ms));
                }
            });
            passed?;
        }
        Contents::Set(set) => {
            set.iter().try_for_each(|member| target.element(Element::Member(member)))?;
        }
        Contents::ZSet(zset) => zset
            .iter()
            .try_for_each(|(member, score)| target.element(Element::Scored(member, score)))?,
        Contents::Stream(stream) => {
            let to = std::cell::RefCell::new(&mut *target);
            let root = |value: &[u8]| {
                let root = StreamRoot::read(value, count).expect("memory wrote it");
                to.borrow_mut().element(Element::Stream(root))
            };
            let record =
                |name: &[u8], value: &[u8]| to.borrow_mut().element(Element::Record(name, value));
            stream.for_each_record(root, record)?;
        }
    }
    target.end()
}
