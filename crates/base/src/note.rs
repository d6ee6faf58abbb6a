//! What the log says of itself: named backups, and commands that are dangerous.
//!
//! A note is the value of a [`RecordKind::Note`](crate::RecordKind::Note) record. It is of no entry, nothing
//! that is restored depends on it, and nothing keeps it from being compacted away: it is garbage from the moment
//! at which it is written. What must last longer is in the manifest.
//!
//! ```text
//!   kind (u8) · time (i64, Unix milliseconds) · what the kind has, texts with a varint of their length
//!   1  a backup was made        id (varint) · block (varint) · name
//!   2  a backup was deleted     id (varint) · name
//!   3  a command emptied or exchanged databases     user · address · command
//!   4  another dangerous command                    user · address · command
//!   5  the server's configuration when it was made  id (varint) of the backup · text
//! ```

use crate::position::Lsn;
use crate::varint;

/// The longest name of a backup, in bytes.
pub const BACKUP_NAME_BYTES_MAX: usize = 64;

/// The longest text of a command, in bytes: what is longer is cut.
pub const COMMAND_BYTES_MAX: usize = 256;

/// The longest name of a user and the longest address, in bytes: what is longer is cut.
pub const CALLER_BYTES_MAX: usize = 128;

/// The longest configuration that a backup carries, in bytes.
pub const CONFIGURATION_BYTES_MAX: usize = 16 << 10;

/// What a note says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// When it was written, in Unix milliseconds.
    pub time_ms: i64,
    /// What has happened.
    pub event: NoteEvent,
}

/// What a note is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoteEvent {
    /// A backup was made.
    BackupCreated {
        /// Its number: no two backups of a database have the same.
        id: u64,
        /// What it is called.
        name: String,
        /// The block after which the log was what the backup is of.
        lsn: Lsn,
    },
    /// A backup was deleted.
    BackupDeleted {
        /// Its number.
        id: u64,
        /// What it was called.
        name: String,
    },
    /// A dangerous command was executed.
    Command(DangerousCommand),
    /// How the server was configured when a backup was made.
    BackupConfiguration {
        /// The number of the backup.
        id: u64,
        /// Lines of a configuration file, without secrets.
        text: String,
    },
}

/// A command that may lose data, or changes how the server keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DangerousCommand {
    /// Whether it has emptied or exchanged databases.
    pub loses_data: bool,
    /// The name of its user.
    pub user: String,
    /// Where it came from.
    pub address: String,
    /// The command, without secrets, and cut where it is long.
    pub text: String,
}

impl Note {
    /// Whether it is of a command that has emptied or exchanged databases.
    #[must_use]
    pub const fn loses_data(&self) -> bool {
        matches!(&self.event, NoteEvent::Command(command) if command.loses_data)
    }

    /// Returns the note as the value of a record.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let (kind, numbers, texts): (u8, [Option<u64>; 2], [&str; 3]) = match &self.event {
            NoteEvent::BackupCreated { id, name, lsn } => {
                (1, [Some(*id), Some(lsn.0)], [name, "", ""])
            }
            NoteEvent::BackupDeleted { id, name } => (2, [Some(*id), None], [name, "", ""]),
            NoteEvent::BackupConfiguration { id, text } => (5, [Some(*id), None], [text, "", ""]),
            NoteEvent::Command(DangerousCommand { loses_data, user, address, text }) => {
                let kind = if *loses_data { 3 } else { 4 };
                (kind, [None, None], [user, address, text])
            }
        };
        let mut bytes = vec![kind];
        bytes.extend_from_slice(&self.time_ms.to_le_bytes());
        numbers.into_iter().flatten().for_each(|number| varint::put(&mut bytes, number));
        let text_count = if matches!(kind, 3 | 4) { 3 } else { 1 };
        texts[..text_count].iter().for_each(|text| varint::put_bytes(&mut bytes, text.as_bytes()));
        bytes
    }

    /// Returns the note that a value is; `None` if it is none, or of a kind that a later program writes.
    #[must_use]
    pub fn decode(value: &[u8]) -> Option<Self> {
        let (&kind, rest) = value.split_first()?;
        let (time_ms, mut rest) = rest.split_first_chunk()?;
        let rest = &mut rest;
        let event = match kind {
            1 => {
                let (id, lsn) = (varint::take(rest)?, varint::take(rest)?);
                let name = take_text(rest, BACKUP_NAME_BYTES_MAX)?;
                NoteEvent::BackupCreated { id, name, lsn: Lsn(lsn) }
            }
            2 => {
                let id = varint::take(rest)?;
                NoteEvent::BackupDeleted { id, name: take_text(rest, BACKUP_NAME_BYTES_MAX)? }
            }
            3 | 4 => NoteEvent::Command(DangerousCommand {
                loses_data: kind == 3,
                user: take_text(rest, CALLER_BYTES_MAX)?,
                address: take_text(rest, CALLER_BYTES_MAX)?,
                text: take_text(rest, COMMAND_BYTES_MAX)?,
            }),
            5 => NoteEvent::BackupConfiguration {
                id: varint::take(rest)?,
                text: take_text(rest, CONFIGURATION_BYTES_MAX)?,
            },
            _ => return None,
        };
        rest.is_empty().then_some(Self { time_ms: i64::from_le_bytes(*time_ms), event })
    }
}

/// Whether a backup may be called so.
#[must_use]
pub fn is_backup_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
    (1..=BACKUP_NAME_BYTES_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

fn take_text(rest: &mut &[u8], bytes_max: usize) -> Option<String> {
    let bytes = varint::take_bytes(rest).filter(|bytes| bytes.len() <= bytes_max)?;
    String::from_utf8(bytes.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn notes() -> Vec<Note> {
        let text = |text: &str| text.to_owned();
        let command = |loses_data| DangerousCommand {
            loses_data,
            user: text("default"),
            address: text("10.0.3.7:50000"),
            text: text("\"FLUSHALL\""),
        };
        [
            NoteEvent::BackupCreated { id: 17, name: text("nightly"), lsn: Lsn(1 << 40) },
            NoteEvent::BackupDeleted { id: 0, name: text("x") },
            NoteEvent::BackupConfiguration { id: 17, text: text("hz 20\n") },
            NoteEvent::Command(command(true)),
            NoteEvent::Command(command(false)),
        ]
        .map(|event| Note { time_ms: -1, event })
        .into()
    }

    #[test]
    fn what_is_encoded_is_decoded_and_nothing_shorter_or_longer() {
        for note in notes() {
            let mut bytes = note.encode();
            assert_eq!(Note::decode(&bytes).as_ref(), Some(&note));
            assert!((0..bytes.len()).all(|len| Note::decode(&bytes[..len]).is_none()));
            bytes.push(0);
            assert_eq!(Note::decode(&bytes), None);
        }
    }

    #[test]
    fn names_are_words_for_a_command_line() {
        assert!(is_backup_name("nightly-2026.11_26") && is_backup_name(&"n".repeat(64)));
        for bad in ["", "two words", "../x\0", "ä", "a/b", &"n".repeat(65)] {
            assert!(!is_backup_name(bad), "{bad}");
        }
    }
}
