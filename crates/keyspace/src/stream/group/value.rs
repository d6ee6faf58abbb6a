//! What the records of groups, consumers and pending entries say.

use base::varint;

use super::Delivery;
use crate::stream::StreamId;
use crate::stream::name::{Name, Number};

/// What the value of a record says.
pub(in crate::stream) enum Value<'a> {
    Group { name: &'a [u8], last_id: StreamId, entries_read: Option<u64> },
    Consumer { name: &'a [u8], seen_ms: i64, active_ms: Option<i64> },
    Pending { consumer: Number, delivery: Delivery },
}

impl<'a> Value<'a> {
    /// Reads the value of what has this name, and is no node.
    pub(in crate::stream) fn read(name: Name, mut value: &'a [u8]) -> Option<Self> {
        let read = match name {
            Name::Node(_) | Name::Message(_) | Name::Limits => return None,
            Name::Group(_) => Self::Group {
                name: varint::take_bytes(&mut value)?,
                last_id: StreamId::take(&mut value)?,
                entries_read: varint::take(&mut value)?.checked_sub(1),
            },
            Name::Consumer(..) => Self::Consumer {
                name: varint::take_bytes(&mut value)?,
                seen_ms: take_ms(&mut value)?,
                active_ms: if value.is_empty() { None } else { Some(take_ms(&mut value)?) },
            },
            Name::Pending(..) => {
                let consumer = Number::try_from(varint::take(&mut value)?).ok()?;
                let count = varint::take(&mut value)?;
                let at_ms = take_ms(&mut value)?;
                Self::Pending { consumer, delivery: Delivery { at_ms, count } }
            }
        };
        value.is_empty().then_some(read)
    }
}

/// Whether what has this name, and is no node, can have this value.
pub(in crate::stream) fn is_value(name: Name, value: &[u8]) -> bool {
    Value::read(name, value).is_some()
}

fn take_ms(input: &mut &[u8]) -> Option<i64> {
    let (bytes, rest) = input.split_first_chunk()?;
    *input = rest;
    Some(i64::from_le_bytes(*bytes))
}
