//! When keys, and fields of hashes, expire in a log that is made of another one.
//!
//! A record says when its key expires, so another time is another record: where times change, each block of the new log is
//! encoded anew while it is copied, with the same records in the same order, and checked like any other. It costs
//! a look at each record, and no more reading or writing than a restore is.

use base::checksum::crc32c;
use base::{Lsn, RecordKind, varint};

use crate::error::{Error, Result};
use crate::format::record;

/// When keys expire in what is restored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Expiry {
    /// When they would have.
    #[default]
    Absolute,
    /// After as long as they had left then.
    Relative {
        /// Now, in Unix milliseconds.
        now_ms: i64,
    },
    /// Never; what had expired by then has.
    Never,
}

impl Expiry {
    /// What becomes of the times of a log as it was after block `lsn`, which was ended at `time_ms`.
    ///
    /// # Errors
    /// When they depend on that time, and it is not known.
    pub(crate) fn rule(self, lsn: Lsn, time_ms: Option<i64>) -> Result<ExpiryRule> {
        match (self, time_ms) {
            (Self::Absolute, _) => Ok(ExpiryRule::Same),
            (Self::Never, Some(since_ms)) => Ok(ExpiryRule::Never { since_ms }),
            (Self::Relative { now_ms }, Some(time_ms)) => {
                Ok(ExpiryRule::Later(now_ms.saturating_sub(time_ms)))
            }
            (Self::Relative { .. } | Self::Never, None) => Err(Error::NoTimeOf { lsn }),
        }
    }
}

/// What becomes of the times at which keys expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExpiryRule {
    Same,
    /// So many milliseconds are added.
    Later(i64),
    /// None is left that is behind this one, in Unix milliseconds.
    Never {
        since_ms: i64,
    },
}

/// Records of a block, encoded anew.
pub(crate) struct Changed {
    pub(crate) records: Vec<u8>,
    pub(crate) crc: u32,
}

impl ExpiryRule {
    /// The records of a block by this rule; `None` where they stay as they are.
    ///
    /// # Errors
    /// What is wrong with them.
    pub(crate) fn apply(
        self,
        mut records: &[u8],
    ) -> std::result::Result<Option<Changed>, &'static str> {
        if self == Self::Same {
            return Ok(None);
        }
        let mut changed = Vec::with_capacity(records.len());
        let mut has_changed = false;
        while !records.is_empty() {
            let before = records;
            let mut record = record::decode(&mut records)?;
            let fields = match record.kind {
                RecordKind::HashPackedExpiring => Some(self.packed_hash(record.value)?),
                _ => None,
            };
            if record.expires_at_ms.is_none() && fields.is_none() {
                changed.extend_from_slice(&before[..before.len() - records.len()]);
                continue;
            }
            let expires_at_ms = record.expires_at_ms.and_then(|at_ms| self.moment(at_ms));
            let value = fields.as_deref().unwrap_or(record.value);
            has_changed |= expires_at_ms != record.expires_at_ms || value != record.value;
            (record.expires_at_ms, record.value) = (expires_at_ms, value);
            record::encode(&mut changed, &record);
        }
        let crc = crc32c(&changed);
        Ok(has_changed.then_some(Changed { records: changed, crc }))
    }

    /// When something expires that did so at `at_ms`.
    const fn moment(self, at_ms: i64) -> Option<i64> {
        match self {
            Self::Later(ms) => Some(at_ms.saturating_add(ms)),
            Self::Never { since_ms } if at_ms > since_ms => None,
            Self::Same | Self::Never { .. } => Some(at_ms),
        }
    }

    /// The value of a small hash with fields that expire: flags, then field, value and expiry in turn.
    fn packed_hash(self, value: &[u8]) -> std::result::Result<Vec<u8>, &'static str> {
        let cut = "a small hash is cut off";
        let (flags, mut rest) = value.split_first().ok_or(cut)?;
        let mut changed = vec![*flags];
        while !rest.is_empty() {
            for _ in 0..2 {
                varint::put_bytes(&mut changed, varint::take_bytes(&mut rest).ok_or(cut)?);
            }
            let expiry = varint::take_bytes(&mut rest).ok_or(cut)?;
            let at_ms = expiry.try_into().ok().map(i64::from_le_bytes);
            let at_ms = at_ms.and_then(|at_ms| self.moment(at_ms)).map(i64::to_le_bytes);
            varint::put_bytes(&mut changed, at_ms.as_ref().map_or(&[], |at_ms| &at_ms[..]));
        }
        Ok(changed)
    }
}

#[cfg(test)]
mod tests {
    use base::{DbId, ObjectId, Record};

    use super::*;

    fn encoded(times: [Option<i64>; 2]) -> Vec<u8> {
        let mut bytes = Vec::new();
        record::encode(&mut bytes, &Record::key_deleted(DbId(0), b"gone"));
        let string = Record::whole(RecordKind::String, DbId(1), b"k", b"value", times[0]);
        record::encode(&mut bytes, &string.new_entry(true));
        let (kind, object) = (RecordKind::Hash, ObjectId(7));
        record::encode(&mut bytes, &Record::root(kind, DbId(0), b"h", object, &[0], times[1]));
        record::encode(&mut bytes, &Record::element(RecordKind::HashField, object, b"f", b"v"));
        bytes
    }

    fn applied(rule: ExpiryRule, times: [Option<i64>; 2]) -> Option<Vec<u8>> {
        rule.apply(&encoded(times)).unwrap().map(|changed| changed.records)
    }

    #[test]
    fn times_are_changed_and_nothing_else() {
        let times = [Some(5000), Some(i64::MAX - 1)];
        assert_eq!(applied(ExpiryRule::Same, times), None);
        let later = encoded([Some(5700), Some(i64::MAX)]);
        assert_eq!(applied(ExpiryRule::Later(700), times), Some(later));
        let never = |since_ms| ExpiryRule::Never { since_ms };
        assert_eq!(applied(never(4999), times), Some(encoded([None, None])));
        let expired = encoded([Some(5000), None]);
        assert_eq!(applied(never(5000), times), Some(expired), "what had expired stays so");
        assert_eq!(applied(never(9000), [Some(5000), None]), None);
        assert_eq!(applied(never(0), [None, None]), None, "nothing expires");
        let cut = &encoded(times)[..12];
        assert!(never(0).apply(cut).is_err());
    }

    #[test]
    fn times_of_fields_are_changed_as_those_of_keys() {
        let small = |at_ms: Option<i64>| {
            let mut value = vec![2];
            [&b"f"[..], b"v"].into_iter().for_each(|bytes| varint::put_bytes(&mut value, bytes));
            let expiry = at_ms.map(i64::to_le_bytes);
            varint::put_bytes(&mut value, expiry.as_ref().map_or(&[], |bytes| &bytes[..]));
            value.extend_from_slice(b"\x01g\x01w\0");
            value
        };
        let encoded = |at_ms| {
            let (mut bytes, value) = (Vec::new(), small(at_ms));
            let kind = RecordKind::HashPackedExpiring;
            record::encode(&mut bytes, &Record::whole(kind, DbId(0), b"h", &value, None));
            let field = Record::element(RecordKind::HashField, ObjectId(7), b"f", b"v");
            record::encode(&mut bytes, &field.until(at_ms));
            bytes
        };
        let applied = |rule: ExpiryRule, at_ms| {
            rule.apply(&encoded(at_ms)).unwrap().map(|changed| changed.records)
        };
        assert_eq!(applied(ExpiryRule::Later(7), Some(5000)), Some(encoded(Some(5007))));
        let never = ExpiryRule::Never { since_ms: 4999 };
        assert_eq!(applied(never, Some(5000)), Some(encoded(None)));
        assert_eq!((applied(never, Some(4999)), applied(never, None)), (None, None));
    }

    #[test]
    fn what_was_left_is_counted_from_the_time_of_the_block() {
        let relative = Expiry::Relative { now_ms: 10_000 };
        assert_eq!(relative.rule(Lsn(3), Some(4000)).unwrap(), ExpiryRule::Later(6000));
        let error = relative.rule(Lsn(3), None).unwrap_err();
        assert!(matches!(error, Error::NoTimeOf { lsn: Lsn(3) }), "{error}");
        let never = Expiry::Never.rule(Lsn(3), Some(4000)).unwrap();
        assert_eq!(never, ExpiryRule::Never { since_ms: 4000 });
        assert!(Expiry::Never.rule(Lsn(3), None).is_err());
    }
}
