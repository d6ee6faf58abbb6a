//! An object of a bucket that is read.

use std::io;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectStore as _, ObjectStoreExt as _};

use crate::Bucket;

/// How much is read with the first call: all of a small object, and the header of a large one.
const FIRST_BYTES: u64 = 64 << 10;

/// How much is read with each call behind that.
const AHEAD_BYTES: u64 = 8 << 20;

/// See the file's top.
pub(crate) struct Stored {
    bucket: Bucket,
    path: Path,
    bytes: u64,
    /// What was read last.
    ahead: Mutex<Ahead>,
}

struct Ahead {
    at: u64,
    bytes: Vec<u8>,
}

impl Ahead {
    /// As much of it as is asked for, from there on.
    fn get(&self, range: &Range<u64>) -> Option<&[u8]> {
        let from = usize::try_from(range.start.checked_sub(self.at)?).ok()?;
        let length = usize::try_from(range.end - range.start).ok()?;
        self.bytes.get(from..)?.get(..length)
    }
}

impl Stored {
    /// Opens it, and reads its beginning.
    pub(crate) fn open(bucket: Bucket, path: Path) -> io::Result<Self> {
        match get(&bucket, &path, 0..FIRST_BYTES) {
            Ok((length, bytes)) => {
                let ahead = Mutex::new(Ahead { at: 0, bytes });
                Ok(Self { bucket, path, bytes: length, ahead })
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(error),
            Err(error) => {
                // Of what has no bytes there is none to be read.
                let length = bucket.wait(0, bucket.store.head(&path)).map(|meta| meta.size);
                if !matches!(length, Ok(0)) {
                    return Err(error);
                }
                let ahead = Mutex::new(Ahead { at: 0, bytes: Vec::new() });
                Ok(Self { bucket, path, bytes: 0, ahead })
            }
        }
    }
}

/// The length of an object, and some of it.
fn get(bucket: &Bucket, path: &Path, range: Range<u64>) -> io::Result<(u64, Vec<u8>)> {
    let most = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
    let options =
        GetOptions { range: Some(GetRange::Bounded(range.clone())), ..GetOptions::default() };
    let call = async {
        let found = bucket.store.get_opts(path, options).await?;
        let (length, returned) = (found.meta.size, found.range.clone());
        Ok((length, returned, found.bytes().await?))
    };
    let (length, returned, bytes) = bucket.wait(most, call)?;
    let is_asked_for = returned.start == range.start && returned.end == range.end.min(length);
    if !is_asked_for || bytes.len() as u64 != returned.end - returned.start {
        let what = "the store has answered with another part of the object";
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok((length, bytes.to_vec()))
}

impl archive::Object for Stored {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.bytes);
        let wanted = offset..end.ok_or(io::ErrorKind::UnexpectedEof)?;
        if buffer.is_empty() {
            return Ok(());
        }
        let mut ahead = self.ahead.lock().unwrap_or_else(PoisonError::into_inner);
        if ahead.get(&wanted).is_none() {
            let most = wanted.end.max(offset.saturating_add(AHEAD_BYTES)).min(self.bytes);
            let (length, bytes) = get(&self.bucket, &self.path, offset..most)?;
            if length != self.bytes {
                let what = "the object has another length than before";
                return Err(io::Error::new(io::ErrorKind::InvalidData, what));
            }
            *ahead = Ahead { at: offset, bytes };
        }
        let bytes = ahead.get(&wanted).ok_or(io::ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(bytes);
        Ok(())
    }
}
