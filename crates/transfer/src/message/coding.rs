//! The parts of messages as bytes: written one behind the other, and read with every length checked before anything is allocated.

use super::{CHECKSUMS_MAX, Origin, PATHS_MAX, TEXT_MAX, Totals, Verification, Wish};
use crate::entry::{self, Entry, Time};
use crate::error::{Error, Result};
use crate::relative_path::RelativePath;
use crate::scheme::Scheme;

/// Appends fields.
#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn u8(&mut self, value: u8) -> &mut Self {
        self.0.push(value);
        self
    }

    pub(super) fn u16(&mut self, value: u16) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(super) fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(super) fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(super) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u16(u16::try_from(bytes.len()).expect("paths and texts are shorter than 64 KiB"));
        self.0.extend_from_slice(bytes);
        self
    }

    pub(super) fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(&text.as_bytes()[..text.floor_char_boundary(TEXT_MAX)])
    }

    pub(super) fn checksums(&mut self, checksums: &[u32]) -> &mut Self {
        assert!(checksums.len() <= CHECKSUMS_MAX, "lists of checksums are split before");
        checksums.iter().for_each(|&checksum| {
            self.u32(checksum);
        });
        self
    }

    pub(super) fn verification(&mut self, verification: &Verification) -> &mut Self {
        self.u8(verification.scheme.code())
            .u16(verification.verifiers)
            .u16(verification.resends_max)
            .u64(verification.device_cache_bytes)
    }

    pub(super) fn wish(&mut self, wish: &Wish) -> &mut Self {
        match wish {
            Wish::Send { into } => {
                self.u8(1).bytes(into.as_ref().map_or(b"", RelativePath::as_bytes))
            }
            Wish::Session { into } => {
                self.u8(3).bytes(into.as_ref().map_or(b"", RelativePath::as_bytes))
            }
            Wish::Fetch { paths } => {
                self.u8(2);
                paths.iter().for_each(|path| {
                    self.bytes(path.as_bytes());
                });
                self
            }
        }
    }

    pub(super) fn entry(&mut self, entry: &Entry) -> &mut Self {
        self.bytes(entry.path.as_bytes())
            .u32(entry.mode)
            .u64(entry.modified.seconds.cast_unsigned())
            .u32(entry.modified.nanoseconds);
        match &entry.kind {
            entry::Kind::Directory => self.u8(1),
            entry::Kind::File { size_bytes, data_bytes } => {
                self.u8(2).u64(*size_bytes).u64(*data_bytes)
            }
            entry::Kind::Link { target } => self.u8(3).bytes(target),
        }
    }
}

/// Reads fields; a missing one is an error.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) =
            self.0.split_at_checked(count).ok_or_else(|| Error::protocol("a truncated message"))?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("as many bytes as were taken"))
    }

    pub(super) fn u8(&mut self) -> Result<u8> {
        Ok(self.array::<1>()?[0])
    }

    pub(super) fn bool(&mut self) -> Result<bool> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Error::protocol("an invalid boolean")),
        }
    }

    pub(super) fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub(super) fn bytes(&mut self) -> Result<&'a [u8]> {
        let length = self.u16()?;
        self.take(usize::from(length))
    }

    pub(super) fn text(&mut self) -> Result<String> {
        match std::str::from_utf8(self.bytes()?) {
            Ok(text) if text.len() <= TEXT_MAX => Ok(text.to_owned()),
            Ok(_) => Err(Error::protocol("a text that is too long")),
            Err(_) => Err(Error::protocol("a text that is not UTF-8")),
        }
    }

    pub(super) fn path(&mut self) -> Result<RelativePath> {
        Ok(RelativePath::new(self.bytes()?)?)
    }

    /// Reads all remaining bytes as checksums.
    pub(super) fn checksums(&mut self) -> Result<Vec<u32>> {
        let (words, []) = self.0.as_chunks::<4>() else {
            return Err(Error::protocol("truncated checksums"));
        };
        if words.len() > CHECKSUMS_MAX {
            return Err(Error::protocol("too many checksums in one message"));
        }
        self.0 = &[];
        Ok(words.iter().map(|&word| u32::from_le_bytes(word)).collect())
    }

    pub(super) fn verification(&mut self) -> Result<Verification> {
        let scheme = Scheme::from_code(self.u8()?);
        Ok(Verification {
            scheme: scheme.ok_or_else(|| Error::protocol("an unknown scheme"))?,
            verifiers: self.u16()?,
            resends_max: self.u16()?,
            device_cache_bytes: self.u64()?,
        })
    }

    pub(super) fn wish(&mut self) -> Result<Wish> {
        match self.u8()? {
            1 if self.0 == [0, 0] => {
                self.0 = &[];
                Ok(Wish::Send { into: None })
            }
            1 => Ok(Wish::Send { into: Some(self.path()?) }),
            2 => {
                let mut paths = Vec::new();
                while !self.0.is_empty() && paths.len() < PATHS_MAX {
                    paths.push(self.path()?);
                }
                Ok(Wish::Fetch { paths })
            }
            3 if self.0 == [0, 0] => {
                self.0 = &[];
                Ok(Wish::Session { into: None })
            }
            3 => Ok(Wish::Session { into: Some(self.path()?) }),
            _ => Err(Error::protocol("an unknown request")),
        }
    }

    pub(super) fn entry(&mut self) -> Result<Entry> {
        let path = self.path()?;
        let mode = self.u32()?;
        let modified = Time { seconds: self.u64()?.cast_signed(), nanoseconds: self.u32()? };
        let kind = match self.u8()? {
            1 => entry::Kind::Directory,
            2 => entry::Kind::File { size_bytes: self.u64()?, data_bytes: self.u64()? },
            3 => entry::Kind::Link { target: self.bytes()?.to_vec() },
            _ => return Err(Error::protocol("an unknown kind of entry")),
        };
        let entry = Entry { path, kind, mode, modified };
        if mode > 0o777
            || modified.nanoseconds >= 1_000_000_000
            || i64::try_from(entry.size_bytes()).is_err()
        {
            return Err(Error::protocol("an entry that no file system can have"));
        }
        Ok(entry)
    }

    pub(super) fn offers(&mut self) -> Result<Vec<(u32, Origin)>> {
        let mut entries = Vec::new();
        while !self.0.is_empty() {
            let entry = self.u32()?;
            let origin = if self.bool()? { Origin::Existing } else { Origin::Staged };
            entries.push((entry, origin));
        }
        Ok(entries)
    }

    pub(super) fn totals(&mut self) -> Result<Totals> {
        Ok(Totals {
            verified_bytes: self.u64()?,
            unchanged_bytes: self.u64()?,
            written_bytes: self.u64()?,
            filler_bytes: self.u64()?,
            pages_sent_again: self.u64()?,
            resident_bytes: self.u64()?,
            device_cache_bytes: self.u64()?,
            verification_us: self.u64()?,
            memory_peak_bytes: self.u64()?,
        })
    }
}
