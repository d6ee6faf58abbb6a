//! Showing what is in a log: `indelible log dump`.
//!
//! Text for people, or one JSON object a line. Keys and values are bytes: in JSON a string when
//! they are UTF-8, otherwise a field with `_hex` in its name.

use std::fmt::Write as _;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use base::{DangerousCommand, Lsn, Note, NoteEvent, Record, RecordAddr, RecordKind};
use env::Disk;

use crate::error::{IoContext, Result};
use crate::format::manifest::KeptFile;
use crate::format::record;
use crate::inspect::verify::open_catalog;
use crate::read::catalog::Catalog;
use crate::read::merge::{DeviceStream, Merge};
use crate::read::scan::{Block, SegmentFile};

/// How a log is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// Writes what is in the log in `dir` to `out`, in LSN order. `devices` as for [`crate::verify()`].
///
/// # Errors
/// When the log is in use or damaged, or `out` takes no more. What was read before is written.
pub fn dump(
    disk: &Arc<dyn Disk>,
    dir: &Path,
    devices: &[PathBuf],
    format: DumpFormat,
    out: &mut dyn io::Write,
) -> Result<()> {
    let catalog = open_catalog(&**disk, dir, devices)?;
    let mut printer = Printer::new(format, out);
    printer.catalog(&catalog)?;
    let mut by_device = vec![Vec::new(); catalog.devices.len()];
    for (index, file) in catalog.files.iter().enumerate() {
        by_device[file.device].push((index, file.clone()));
    }
    let streams = by_device.into_iter().map(|files| DeviceStream::new(disk.clone(), files));
    let mut merge = Merge::sequential(streams.collect::<Result<_>>()?)?;
    while let Some((file, block)) = merge.next()? {
        let file = &catalog.files[file];
        printer.block(file, &block)?;
        for body in block.bodies() {
            let corrupt = |what: &str| file.corrupt(block.offset, what);
            let (ordinal, _, body) = body.map_err(corrupt)?;
            let record = record::decode_body(body).map_err(corrupt)?;
            let addr = RecordAddr::new(block.header.segment, ordinal);
            printer.record(Some(block.header.lsn), addr, &record)?;
        }
    }
    for (file, mut tail) in merge.tails {
        let file = &catalog.files[file];
        tail.look_through(&**disk, file)?;
        if let Some(what) = tail.what {
            printer.tail(&file.path, tail.offset, what)?;
        }
    }
    Ok(())
}

/// The note that a record is, if this program knows it.
fn note_of(record: &Record<'_>) -> Option<Note> {
    (record.kind == RecordKind::Note).then(|| Note::decode(record.value))?
}

pub(crate) struct Printer<'a> {
    format: DumpFormat,
    out: &'a mut dyn io::Write,
    line: String,
}

impl<'a> Printer<'a> {
    pub(crate) fn new(format: DumpFormat, out: &'a mut dyn io::Write) -> Self {
        Self { format, out, line: String::new() }
    }

    fn kept(&mut self, kept: &KeptFile) -> Result<()> {
        let KeptFile { segment, part, generation, device, from, until } = kept;
        match self.format {
            DumpFormat::Text => self.push(format_args!(
                "kept segment {segment} part {part} generation {generation} from {from} until {until} on {device}"
            )),
            DumpFormat::Json => self.push(format_args!(
                r#"{{"type":"kept","segment":{segment},"part":{part},"generation":{generation},"from":{from},"until":{until},"device":"{device}"}}"#
            )),
        }
        self.end_line()
    }

    fn catalog(&mut self, catalog: &Catalog) -> Result<()> {
        if let Some(manifest) = &catalog.manifest {
            let (epoch, durable) = (manifest.epoch, manifest.durable_lsn);
            match self.format {
                DumpFormat::Text => self.push(format_args!(
                    "database {} epoch {epoch} durable {durable} horizon {} next segment {} object floor {} history floor {}",
                    manifest.database,
                    manifest.horizon,
                    manifest.next_segment,
                    manifest.object_floor.0,
                    manifest.history_floor
                )),
                DumpFormat::Json => self.push(format_args!(
                    r#"{{"type":"manifest","database":"{}","epoch":{epoch},"durable_lsn":{durable},"horizon":{},"next_segment":{},"object_floor":{},"history_floor":{}}}"#,
                    manifest.database,
                    manifest.horizon,
                    manifest.next_segment,
                    manifest.object_floor.0,
                    manifest.history_floor
                )),
            }
            self.end_line()?;
            for kept in &manifest.history {
                self.kept(kept)?;
            }
        }
        for file in &catalog.files {
            let header = &file.header;
            let sealed = file.footer.is_some();
            let records = file.footer.as_ref().map_or(0, |footer| footer.survivors.count());
            match self.format {
                DumpFormat::Text => self.push(format_args!(
                    "segment {} part {} generation {} bytes {} {} {}",
                    header.segment,
                    header.part,
                    header.generation,
                    file.len,
                    if sealed { format!("sealed, {records} records,") } else { "open".into() },
                    file.path.display()
                )),
                DumpFormat::Json => {
                    self.push(format_args!(
                        r#"{{"type":"segment","segment":{},"part":{},"generation":{},"bytes":{},"sealed":{sealed},"#,
                        header.segment, header.part, header.generation, file.len
                    ));
                    self.json_bytes("file", file.path.as_os_str().as_encoded_bytes());
                    self.line.push('}');
                }
            }
            self.end_line()?;
        }
        Ok(())
    }

    fn block(&mut self, file: &SegmentFile, block: &Block) -> Result<()> {
        let header = &block.header;
        let offset = file.start + block.offset;
        let (lsn, time_ms, records) = (header.lsn, header.time_ms, header.record_count);
        let bytes = header.block_bytes();
        match self.format {
            DumpFormat::Text => self.push(format_args!(
                "block {lsn} time {time_ms} records {records} bytes {bytes} at {offset} in {}",
                file.path.display()
            )),
            DumpFormat::Json => self.push(format_args!(
                r#"{{"type":"block","lsn":{lsn},"time_ms":{time_ms},"records":{records},"bytes":{bytes},"segment":{},"offset":{offset},"durable_lsn":{}}}"#,
                header.segment, header.durable_lsn
            )),
        }
        self.end_line()
    }

    /// A record, with its block if that is known.
    pub(crate) fn record(
        &mut self,
        lsn: Option<Lsn>,
        addr: RecordAddr,
        record: &Record<'_>,
    ) -> Result<()> {
        let kind = record.kind;
        let is_element = kind.is_element();
        match self.format {
            DumpFormat::Text => {
                self.push(format_args!("  {addr} {kind:?}"));
                if let Some(note) = note_of(record) {
                    self.text_note(&note);
                    return self.end_line();
                }
                if is_element {
                    self.push(format_args!(" object {} ", record.object.0));
                    self.text_bytes(record.sub);
                } else if kind.is_library() {
                    self.line.push(' ');
                    self.text_bytes(record.key);
                } else {
                    self.push(format_args!(" db {} ", record.db.0));
                    self.text_bytes(record.key);
                    if kind.is_root() {
                        self.push(format_args!(" object {}", record.object.0));
                    }
                }
                if let Some(expires_at_ms) = record.expires_at_ms {
                    self.push(format_args!(" expires {expires_at_ms}"));
                }
                if record.is_new {
                    self.line.push_str(" new");
                }
                if !kind.is_delete() {
                    self.line.push_str(" = ");
                    self.text_bytes(record.value);
                }
            }
            DumpFormat::Json => {
                self.line.push_str(r#"{"type":"record","#);
                if let Some(lsn) = lsn {
                    self.push(format_args!(r#""lsn":{lsn},"#));
                }
                self.push(format_args!(r#""addr":"{addr}","kind":"{kind:?}","#));
                if let Some(note) = note_of(record) {
                    self.json_note(&note);
                    return self.end_line();
                }
                if is_element {
                    self.push(format_args!(r#""object":{},"#, record.object.0));
                    self.json_bytes("sub", record.sub);
                } else if kind.is_library() {
                    self.json_bytes("name", record.key);
                } else {
                    self.push(format_args!(r#""db":{},"#, record.db.0));
                    self.json_bytes("key", record.key);
                    if kind.is_root() {
                        self.push(format_args!(r#","object":{}"#, record.object.0));
                    }
                }
                if let Some(expires_at_ms) = record.expires_at_ms {
                    self.push(format_args!(r#","expires_at_ms":{expires_at_ms}"#));
                }
                if record.is_new {
                    self.line.push_str(r#","new":true"#);
                }
                if !kind.is_delete() {
                    self.line.push(',');
                    self.json_bytes("value", record.value);
                }
                self.line.push('}');
            }
        }
        self.end_line()
    }

    fn text_note(&mut self, note: &Note) {
        self.push(format_args!(" time {}", note.time_ms));
        match &note.event {
            NoteEvent::BackupCreated { id, name, lsn } => {
                self.push(format_args!(" backup {id} {name} of block {lsn}"));
            }
            NoteEvent::BackupDeleted { id, name } => {
                self.push(format_args!(" backup {id} {name} deleted"));
            }
            NoteEvent::BackupConfiguration { id, text } => {
                self.push(format_args!(" configuration of backup {id}: {}", text.escape_debug()));
            }
            NoteEvent::Command(DangerousCommand { user, address, text, .. }) => {
                self.push(format_args!(" by {user} from {address}: {text}"));
            }
        }
    }

    fn json_note(&mut self, note: &Note) {
        self.push(format_args!(r#""note_time_ms":{},"#, note.time_ms));
        match &note.event {
            NoteEvent::BackupCreated { id, name, lsn } => self.push(format_args!(
                r#""event":"backup-created","id":{id},"of_lsn":{lsn},"name":"{name}""#
            )),
            NoteEvent::BackupDeleted { id, name } => {
                self.push(format_args!(r#""event":"backup-deleted","id":{id},"name":"{name}""#))
            }
            NoteEvent::BackupConfiguration { id, text } => {
                self.push(format_args!(r#""event":"backup-configuration","id":{id},"#));
                self.json_bytes("configuration", text.as_bytes());
            }
            NoteEvent::Command(DangerousCommand { loses_data, user, address, text }) => {
                self.push(format_args!(r#""event":"command","loses_data":{loses_data},"#));
                let texts = [("user", user), ("address", address), ("command", text)];
                for (at, (name, text)) in texts.into_iter().enumerate() {
                    self.line.push_str(if at > 0 { "," } else { "" });
                    self.json_bytes(name, text.as_bytes());
                }
            }
        }
        self.line.push('}');
    }

    fn tail(&mut self, path: &Path, offset: u64, what: &str) -> Result<()> {
        match self.format {
            DumpFormat::Text => {
                self.push(format_args!("{} ends torn at byte {offset}: {what}", path.display()));
            }
            DumpFormat::Json => {
                self.push(format_args!(r#"{{"type":"tail","offset":{offset},"what":"{what}","#));
                self.json_bytes("file", path.as_os_str().as_encoded_bytes());
                self.line.push('}');
            }
        }
        self.end_line()
    }

    fn push(&mut self, args: std::fmt::Arguments<'_>) {
        self.line.write_fmt(args).expect("a string takes everything");
    }

    /// `"name":"…"`, or `"name_hex":"…"` for what is not UTF-8.
    fn json_bytes(&mut self, name: &str, bytes: &[u8]) {
        let Ok(text) = std::str::from_utf8(bytes) else {
            self.push(format_args!(r#""{name}_hex":""#));
            bytes.iter().for_each(|byte| self.push(format_args!("{byte:02x}")));
            self.line.push('"');
            return;
        };
        self.push(format_args!(r#""{name}":""#));
        for char in text.chars() {
            match char {
                '"' => self.line.push_str("\\\""),
                '\\' => self.line.push_str("\\\\"),
                '\n' => self.line.push_str("\\n"),
                char if u32::from(char) < 0x20 => {
                    self.push(format_args!("\\u{:04x}", u32::from(char)));
                }
                char => self.line.push(char),
            }
        }
        self.line.push('"');
    }

    /// As redis-cli shows strings.
    fn text_bytes(&mut self, bytes: &[u8]) {
        self.line.push('"');
        for &byte in bytes {
            match byte {
                b'"' | b'\\' => {
                    self.line.push('\\');
                    self.line.push(char::from(byte));
                }
                b'\n' => self.line.push_str("\\n"),
                b'\r' => self.line.push_str("\\r"),
                b'\t' => self.line.push_str("\\t"),
                0x20..=0x7e => self.line.push(char::from(byte)),
                _ => self.push(format_args!("\\x{byte:02x}")),
            }
        }
        self.line.push('"');
    }

    fn end_line(&mut self) -> Result<()> {
        self.line.push('\n');
        let written = self.out.write_all(self.line.as_bytes());
        self.line.clear();
        written.at(Path::new("output"), "write")
    }
}
