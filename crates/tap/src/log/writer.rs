//! Writes the log: batches, syncs, segments.
//!
//! A full disk leaves the writer unchanged: the same batch can be written again. Any other failure
//! is final: after a failed sync, it is unknown what of the file is on the device. The next start
//! finds out.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use env::{Access, Disk, File, Lock};

use super::batch::Batch;
use super::segment::{self, Header, Segment};
use super::{Carried, Keep};
use crate::FileError;
use crate::entry::{ConnectionNumber, Entry, GapReason, Position, Time};
use crate::error::{Error, Result};

/// How the log is written.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The name of the protocol, at most 16 bytes of ASCII.
    pub protocol: String,
    /// The retention limits.
    pub keep: Keep,
}

/// The end of the log, open for writing.
pub struct Writer {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    settings: Settings,
    segment: u64,
    path: PathBuf,
    file: Box<dyn File>,
    /// The offset of the next batch.
    end: u64,
    /// The number of the next batch.
    batch: u64,
    /// The last durable batch.
    synced: u64,
    position: Position,
    connection: ConnectionNumber,
    is_continued: bool,
    _lock: Box<dyn Lock>,
}

impl Writer {
    /// Opens the log in `dir` for appending in a new segment, creating the log if needed. A torn
    /// tail is truncated; a continued log gets a gap, because nothing was captured meanwhile.
    ///
    /// # Errors
    /// If another process writes it, if it is of another protocol, if its last segment is damaged,
    /// or if a file cannot be written.
    pub fn open(disk: Arc<dyn Disk>, dir: &Path, settings: Settings, now: Time) -> Result<Self> {
        disk.create_dir_all(dir).map_err(Error::on(dir, "create"))?;
        let path = dir.join("tap.lock");
        let lock = disk.lock(&path).map_err(|error| {
            if error.kind() == std::io::ErrorKind::WouldBlock {
                let what = "another process writes this log; stop it or choose another directory";
                FileError::InUse { path: path.clone(), what }.into()
            } else {
                Error::on(&path, "lock")(error)
            }
        })?;
        let end = match segment::list(&*disk, dir)?.last() {
            Some(last) => Some(End::find(&*disk, dir, *last, &settings.protocol)?),
            None => None,
        };
        let header = Header {
            segment: end.as_ref().map_or(1, |end| end.segment + 1),
            first_batch: end.as_ref().map_or(1, |end| end.batch),
            position: end.as_ref().map_or(Position(0), |end| end.position),
            connection: end.as_ref().map_or(ConnectionNumber(0), |end| end.connection),
            created: now,
            protocol: settings.protocol.clone(),
        };
        let mut first = Batch::after(header.position);
        if end.is_some() {
            first.gap(None, now, 0, GapReason::Stopped);
        }
        let (path, file, length) = begin_segment(&*disk, dir, &header, &mut first)?;
        let mut writer = Self {
            dir: dir.into(),
            settings,
            segment: header.segment,
            path,
            file,
            end: length,
            batch: header.first_batch + 1,
            synced: header.first_batch,
            position: header.position,
            connection: header.connection,
            is_continued: end.is_some(),
            _lock: lock,
            disk,
        };
        writer.remove_old(now)?;
        Ok(writer)
    }

    /// The position of the last request in the log.
    #[must_use]
    pub fn position(&self) -> Position {
        self.position
    }

    /// The last connection numbered when the log was opened.
    #[must_use]
    pub fn connection(&self) -> ConnectionNumber {
        self.connection
    }

    /// Whether the log existed before, so that it has a gap now.
    #[must_use]
    pub fn is_continued(&self) -> bool {
        self.is_continued
    }

    /// Writes a batch; it is durable after [`Writer::sync`].
    ///
    /// # Errors
    /// If the write fails. If the disk is full, the same batch may be written again later.
    pub fn write(&mut self, batch: &mut Batch) -> Result<()> {
        let bytes = batch.seal(self.batch, self.synced);
        self.file.write_all_at(bytes, self.end).map_err(Error::on(&self.path, "write"))?;
        self.end += bytes.len() as u64;
        self.batch += 1;
        self.position = batch.position();
        Ok(())
    }

    /// Makes every written batch durable.
    ///
    /// # Errors
    /// If the sync fails; the log must then not be written any further.
    pub fn sync(&mut self) -> Result<()> {
        if self.synced + 1 < self.batch {
            self.file.sync_data().map_err(Error::on(&self.path, "sync"))?;
            self.synced = self.batch - 1;
        }
        Ok(())
    }

    /// Bytes in the current segment.
    #[must_use]
    pub fn segment_len_bytes(&self) -> u64 {
        self.end
    }

    /// Continues in a new segment, which begins with the open connections. Removes what is no
    /// longer kept. `connection` is the last one numbered.
    ///
    /// # Errors
    /// If the segment cannot be created. If the disk is full, the old one remains in use.
    pub fn rotate(
        &mut self,
        carried: &[Carried],
        connection: ConnectionNumber,
        now: Time,
    ) -> Result<()> {
        self.sync()?;
        let header = Header {
            segment: self.segment + 1,
            first_batch: self.batch,
            position: self.position,
            connection,
            created: now,
            protocol: self.settings.protocol.clone(),
        };
        let mut first = Batch::carrying(carried, self.position);
        let (path, file, length) = begin_segment(&*self.disk, &self.dir, &header, &mut first)?;
        self.path = path;
        self.file = file;
        self.segment = header.segment;
        self.end = length;
        self.synced = self.batch;
        self.batch += 1;
        self.remove_old(now)
    }

    /// Ends the log: makes everything durable, and adds a last batch that says so.
    ///
    /// # Errors
    /// As [`Writer::write`] and [`Writer::sync`].
    pub fn close(mut self) -> Result<()> {
        self.sync()?;
        self.write(&mut Batch::after(self.position))?;
        self.sync()
    }

    /// Removes the segments outside the retention limits.
    fn remove_old(&mut self, now: Time) -> Result<()> {
        let Keep { bytes_max, age_max } = self.settings.keep;
        if bytes_max.is_none() && age_max.is_none() {
            return Ok(());
        }
        let mut segments = Vec::new();
        for number in segment::list(&*self.disk, &self.dir)? {
            let segment = Segment::open(&*self.disk, &self.dir, number, Access::Read)?;
            let bytes = segment.len()?;
            segments.push((segment.path, bytes, segment.header.created));
        }
        let mut total: u64 = segments.iter().map(|(_, bytes, _)| bytes).sum();
        for pair in segments.windows(2) {
            let (path, bytes, _) = &pair[0];
            // The contents of a segment are at least as old as the beginning of the next one.
            let age_ns = u128::from(now.0.saturating_sub(pair[1].2.0));
            let is_old = age_max.is_some_and(|max| age_ns > max.as_nanos());
            if !is_old && bytes_max.is_none_or(|max| total <= max) {
                break;
            }
            self.disk.remove(path).map_err(Error::on(path, "remove"))?;
            // One after another: a crash must not leave an older segment without a newer one.
            self.disk.sync_dir(&self.dir).map_err(Error::on(&self.dir, "sync"))?;
            total -= bytes;
        }
        Ok(())
    }
}

/// Creates a segment with its header and first batch, durable under its name.
fn begin_segment(
    disk: &dyn Disk,
    dir: &Path,
    header: &Header,
    first: &mut Batch,
) -> Result<(PathBuf, Box<dyn File>, u64)> {
    let path = segment::path(dir, header.segment);
    let unfinished = dir.join("next.tmp");
    let mut bytes = header.encode().to_vec();
    bytes.extend_from_slice(first.seal(header.first_batch, header.first_batch - 1));
    let file = env::publish(disk, &unfinished, &path, &bytes)?;
    Ok((path, file, bytes.len() as u64))
}

/// The end of a continued log.
struct End {
    segment: u64,
    batch: u64,
    position: Position,
    connection: ConnectionNumber,
}

impl End {
    /// Reads the last segment, truncates its torn tail and syncs it.
    fn find(disk: &dyn Disk, dir: &Path, number: u64, protocol: &str) -> Result<Self> {
        let mut last = Segment::open(disk, dir, number, Access::ReadWrite)?;
        if last.header.protocol != protocol {
            return Err(Error::OtherProtocol {
                dir: dir.into(),
                found: last.header.protocol,
                wanted: protocol.into(),
            });
        }
        let mut position = last.header.position;
        let mut connection = last.header.connection;
        while let Some(found) = last.next_batch()? {
            let entries = found
                .header
                .entries(&found.body)
                .map_err(|(_, what)| Error::corrupt(&last.path, found.offset, what))?;
            for entry in entries {
                match entry {
                    Entry::Request { position: later, .. } => position = position.max(later),
                    Entry::Opened { connection: later, .. } => connection = connection.max(later),
                    Entry::Completed { .. } | Entry::Gap { .. } | Entry::Closed { .. } => {}
                }
            }
        }
        last.must_be_torn()?;
        if last.batch.max(position.0).max(connection.0) >= segment::NUMBER_MAX {
            return Err(last.corrupt("a number that no log can reach"));
        }
        last.file.set_len(last.offset).map_err(Error::on(&last.path, "truncate"))?;
        last.file.sync_data().map_err(Error::on(&last.path, "sync"))?;
        Ok(Self { segment: number, batch: last.batch, position, connection })
    }
}
