//! Records as bytes.
//!
//! ```text
//!  length   varint: how many bytes follow, so that copying never parses
//!  tag      u8: the kind's number; bit 6 says that an expiry follows, bit 5 that the entry is new
//!  key entries                          element entries
//!    database   varint                    object   varint
//!    key        varint length, bytes      sub      varint length, bytes
//!    object     varint, roots only
//!  expiry   i64, only with bit 6
//!  value    the rest
//! ```
//!
//! The body is never shorter than [`BODY_BYTES_MIN`], so the first byte of a record is never 0, 1
//! or 2: zeros are the unwritten end of a file, 1 begins a block, 2 begins a footer.

use base::varint;
use base::{DbId, ObjectId, Record, RecordKind};

/// The shortest body: tag, database or object, and an empty name.
pub const BODY_BYTES_MIN: usize = 3;

/// The bit of the tag that says that an expiry is there. No kind's number has it.
const EXPIRES: u8 = 0x40;

/// The bit of the tag that says that the entry was not there before. No kind's number has it, and
/// no file of version 1.
const NEW: u8 = 0x20;

/// Appends `record` to `out`.
pub fn encode(out: &mut Vec<u8>, record: &Record<'_>) {
    let kind = record.kind;
    let (scope, name) =
        if kind.is_element() { (record.object.0, record.sub) } else { (record.db.0, record.key) };
    let mut body_bytes =
        1 + varint::len(scope) + varint::len(name.len() as u64) + name.len() + record.value.len();
    if kind.is_root() {
        body_bytes += varint::len(record.object.0);
    }
    if record.expires_at_ms.is_some() {
        body_bytes += 8;
    }
    out.reserve(varint::LEN_MAX + body_bytes);
    varint::put(out, body_bytes as u64);
    let expires = if record.expires_at_ms.is_some() { EXPIRES } else { 0 };
    out.push(kind as u8 | expires | if record.is_new { NEW } else { 0 });
    varint::put(out, scope);
    varint::put_bytes(out, name);
    if kind.is_root() {
        varint::put(out, record.object.0);
    }
    if let Some(expires_at_ms) = record.expires_at_ms {
        out.extend_from_slice(&expires_at_ms.to_le_bytes());
    }
    out.extend_from_slice(record.value);
}

/// Takes the length and the body of the record at the front of `input`, without looking into it.
///
/// # Errors
/// When the bytes end before the record does, or are no record.
pub fn take_body<'a>(input: &mut &'a [u8]) -> Result<&'a [u8], &'static str> {
    let body = varint::take_bytes(input).ok_or("a record is longer than its block")?;
    if body.len() < BODY_BYTES_MIN {
        return Err("a record is too short");
    }
    Ok(body)
}

/// The record with this body.
///
/// # Errors
/// What is wrong with it.
pub fn decode_body(mut body: &[u8]) -> Result<Record<'_>, &'static str> {
    let (&tag, rest) = body.split_first().ok_or("a record is empty")?;
    body = rest;
    let kind = kind_of_tag(tag).ok_or("a record has an unknown kind")?;
    let scope = varint::take(&mut body).ok_or("a record's database or object is cut off")?;
    let name = varint::take_bytes(&mut body).ok_or("a record's key is cut off")?;
    let mut record = if kind.is_element() {
        Record::element(kind, ObjectId(scope), name, &[])
    } else {
        Record::whole(kind, DbId(scope), name, &[], None)
    };
    if kind.is_root() {
        let object = varint::take(&mut body).ok_or("a record's object is cut off")?;
        record.object = ObjectId(object);
    }
    if tag & EXPIRES != 0 {
        let (bytes, rest) = body.split_first_chunk().ok_or("a record's expiry is cut off")?;
        record.expires_at_ms = Some(i64::from_le_bytes(*bytes));
        body = rest;
    }
    record.value = body;
    record.is_new = tag & NEW != 0;
    Ok(record)
}

/// Takes the record at the front of `input`.
///
/// # Errors
/// What is wrong with it; `input` is then somewhere within it.
pub fn decode<'a>(input: &mut &'a [u8]) -> Result<Record<'a>, &'static str> {
    decode_body(take_body(input)?)
}

/// Whether the record with this body says that an entry is gone.
pub(crate) fn is_delete(body: &[u8]) -> bool {
    body.first().is_some_and(|tag| tag & 0x80 != 0)
}

fn kind_of_tag(tag: u8) -> Option<RecordKind> {
    // A table, because a search through eighteen kinds would be most of the time of decoding.
    const KINDS: [Option<RecordKind>; 256] = {
        let mut kinds = [None; 256];
        let mut at = 0;
        while at < RecordKind::ALL.len() {
            kinds[RecordKind::ALL[at] as usize] = Some(RecordKind::ALL[at]);
            at += 1;
        }
        kinds
    };
    KINDS[usize::from(tag & !(EXPIRES | NEW))]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    struct Owned {
        kind: RecordKind,
        db: u64,
        name: Vec<u8>,
        object: u64,
        value: Vec<u8>,
        expires_at_ms: Option<i64>,
        is_new: bool,
    }

    impl Owned {
        fn record(&self) -> Record<'_> {
            self.old_record().new_entry(self.is_new)
        }

        fn old_record(&self) -> Record<'_> {
            if self.kind.is_element() {
                let mut record =
                    Record::element(self.kind, ObjectId(self.object), &self.name, &self.value);
                record.expires_at_ms = self.expires_at_ms;
                record
            } else if self.kind.is_root() {
                Record::root(
                    self.kind,
                    DbId(self.db),
                    &self.name,
                    ObjectId(self.object),
                    &self.value,
                    self.expires_at_ms,
                )
            } else {
                let db = DbId(self.db);
                Record::whole(self.kind, db, &self.name, &self.value, self.expires_at_ms)
            }
        }
    }

    fn owned() -> impl Strategy<Value = Owned> {
        let kind = proptest::sample::select(&RecordKind::ALL[..]);
        (
            kind,
            any::<u64>(),
            any::<Vec<u8>>(),
            any::<u64>(),
            any::<Vec<u8>>(),
            any::<(Option<i64>, bool)>(),
        )
            .prop_map(|(kind, db, name, object, value, (expires_at_ms, is_new))| Owned {
                kind,
                db,
                name,
                object,
                value,
                expires_at_ms,
                is_new,
            })
    }

    #[test]
    fn what_is_lost_is_written_as_it_ever_was() {
        let bytes = |record: &Record<'_>| {
            let mut bytes = Vec::new();
            encode(&mut bytes, record);
            assert_eq!(decode(&mut &bytes[..]), Ok(*record));
            bytes
        };
        let value_lost = Record::whole(RecordKind::ValueLost, DbId(2), b"key", &[3], Some(5));
        assert_eq!(bytes(&value_lost), b"\x0f\x5b\x02\x03key\x05\0\0\0\0\0\0\0\x03");
        let key_lost = Record::whole(RecordKind::KeyLost, DbId(2), b"identity-12b", &[0], None);
        assert_eq!(bytes(&key_lost), b"\x10\x1c\x02\x0cidentity-12b\0");
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded(all in proptest::collection::vec(owned(), 0..20)) {
            let mut bytes = Vec::new();
            for one in &all {
                let start = bytes.len();
                encode(&mut bytes, &one.record());
                prop_assert!(bytes[start] > 2, "the first byte tells a record from a block");
            }
            let mut input = &bytes[..];
            for one in &all {
                prop_assert_eq!(decode(&mut input), Ok(one.record()));
            }
            prop_assert!(input.is_empty());
        }

        #[test]
        fn any_bytes_decode_or_are_refused(bytes: Vec<u8>) {
            let mut input = &bytes[..];
            while !input.is_empty() && decode(&mut input).is_ok() {}
        }

        #[test]
        fn a_cut_record_is_refused(one in owned(), cut: proptest::sample::Index) {
            let mut bytes = Vec::new();
            encode(&mut bytes, &one.record());
            let cut = cut.index(bytes.len());
            prop_assert!(decode(&mut &bytes[..cut]).is_err());
        }
    }

    #[test]
    fn a_small_set_costs_four_bytes_more_than_its_data() {
        let mut bytes = Vec::new();
        let record = Record::whole(RecordKind::String, DbId(0), &[b'k'; 16], &[b'v'; 100], None);
        encode(&mut bytes, &record);
        assert_eq!(bytes.len(), 116 + 4);
    }
}
