//! Named backups, and the last commands that were dangerous: what the manifest has of notes.
//!
//! A note in the log is garbage at once. What must last is here: a backup until it is deleted, a command until
//! there are [`COMMANDS_MAX`] newer ones. A start reads notes that the manifest does not have yet behind it, in
//! the log: numbers of backups and blocks of commands tell which those are.

use std::sync::Arc;

use base::bytes::u64_at;
use base::note::{BACKUP_NAME_BYTES_MAX, CONFIGURATION_BYTES_MAX, is_backup_name};
use base::{DangerousCommand, Lsn, Note, NoteEvent, varint};

/// There are at most so many backups.
pub const BACKUPS_MAX: usize = 1000;

/// Numbers of backups are below this.
const ID_END: u64 = u64::MAX - 1;

/// So many commands are remembered.
pub(crate) const COMMANDS_MAX: usize = 64;

/// A backup: a block after which the log can be read as it was, until the backup is deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NamedBackup {
    /// Its number: no two backups of a database have the same.
    pub id: u64,
    /// What it is called.
    pub name: String,
    /// The block after which the log was what it is of.
    pub lsn: Lsn,
    /// The block that says that it was made: it is none before that is durable.
    pub noted_lsn: Lsn,
    /// When it was made, in Unix milliseconds.
    pub time_ms: i64,
    /// What it needs is not all there any more.
    pub is_lost: bool,
}

impl NamedBackup {
    /// What the backup of this number is called where it is told from others, and when it was given no name.
    #[must_use]
    pub fn name_of(id: u64) -> String {
        format!("b-{id:06}")
    }

    /// Its number, as it is told.
    #[must_use]
    pub fn number(&self) -> String {
        Self::name_of(self.id)
    }

    /// Its state, as it is told.
    #[must_use]
    pub const fn state(&self) -> &'static str {
        if self.is_lost { "lost" } else { "restorable" }
    }

    /// Whether it needs a file that the log was made of from block `from` up to before `until`.
    #[must_use]
    pub fn needs(&self, from: Lsn, until: Lsn) -> bool {
        !self.is_lost && from <= self.lsn && self.lsn < until
    }
}

/// A command that was dangerous, as the log has noted it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotedCommand {
    /// The block that says so; if it has lost data, the state before it is the one of the block before.
    pub lsn: Lsn,
    /// When it was executed, in Unix milliseconds.
    pub time_ms: i64,
    /// The command.
    pub command: DangerousCommand,
}

/// See the file's top.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Registry {
    next_id: u64,
    backups: Vec<NamedBackup>,
    commands: Vec<NotedCommand>,
    /// The blocks of backups that are not lost, ascending, each once.
    held: Vec<Lsn>,
    /// How the server was configured when backups were made.
    configurations: Vec<Configuration>,
}

/// A configuration, and the backups that were made with it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Configuration {
    text: Arc<str>,
    /// Their numbers.
    backups: Vec<u64>,
}

/// So many different configurations are remembered: backups with others have none.
const CONFIGURATIONS_MAX: usize = 64;

/// The kind of an entry that is a backup of which something is missing; others are those of notes.
const LOST: u64 = 1;

impl Registry {
    /// That of a log of which nothing was noted.
    pub const EMPTY: Self = Self {
        next_id: 0,
        backups: Vec::new(),
        commands: Vec::new(),
        held: Vec::new(),
        configurations: Vec::new(),
    };

    /// That of backups in the order in which they were made, and of commands ascending by their blocks.
    pub(crate) fn new(
        next_id: u64,
        backups: Vec<NamedBackup>,
        commands: Vec<NotedCommand>,
    ) -> Self {
        let mut registry = Self { next_id, backups, commands, ..Self::EMPTY };
        registry.note_held();
        registry
    }

    fn note_held(&mut self) {
        let there = self.backups.iter().filter(|backup| !backup.is_lost);
        self.held = there.map(|backup| backup.lsn).collect();
        self.held.sort_unstable();
        self.held.dedup();
    }

    /// The number that the next backup gets.
    #[must_use]
    pub const fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Backups, in the order in which they were made.
    #[must_use]
    pub fn backups(&self) -> &[NamedBackup] {
        &self.backups
    }

    /// Commands, ascending by their blocks.
    #[must_use]
    pub fn commands(&self) -> &[NotedCommand] {
        &self.commands
    }

    /// Blocks of backups that are not lost, ascending, each once.
    #[must_use]
    pub fn held(&self) -> &[Lsn] {
        &self.held
    }

    /// Those of them that need a file which the log was made of from block `from` up to before `until`.
    pub(crate) fn held_between(&self, from: Lsn, until: Lsn) -> std::ops::Range<usize> {
        let start = self.held.partition_point(|lsn| *lsn < from);
        start..self.held.partition_point(|lsn| *lsn < until).max(start)
    }

    /// Adds a backup, which has the next number.
    pub(crate) fn add_backup(&mut self, backup: NamedBackup) {
        self.next_id = backup.id.saturating_add(1);
        self.backups.push(backup);
        self.note_held();
    }

    /// How the server was configured when the backup of this number was made, without secrets, if it is known.
    #[must_use]
    pub fn configuration(&self, id: u64) -> Option<&str> {
        let found = self.configurations.iter().find(|it| it.backups.contains(&id));
        found.map(|configuration| &*configuration.text)
    }

    /// Notes how the server was configured when the backup of this number was made, which is there.
    pub(crate) fn set_configuration(&mut self, id: u64, text: &str) {
        let is_there = self.backups.iter().any(|backup| backup.id == id);
        if !is_there || self.configuration(id).is_some() || text.len() > CONFIGURATION_BYTES_MAX {
            return;
        }
        let has_room = self.configurations.len() < CONFIGURATIONS_MAX;
        match self.configurations.iter_mut().find(|it| &*it.text == text) {
            Some(same) => same.backups.push(id),
            None if has_room => {
                self.configurations.push(Configuration { text: text.into(), backups: vec![id] });
            }
            None => {}
        }
    }

    /// Forgets configurations of backups that are not there.
    fn settle_configurations(&mut self) {
        let Self { backups, configurations, .. } = self;
        for configuration in &mut *configurations {
            configuration.backups.retain(|id| backups.iter().any(|backup| backup.id == *id));
        }
        configurations.retain(|configuration| !configuration.backups.is_empty());
    }

    /// Takes out the backup of this name.
    pub(crate) fn remove_backup(&mut self, name: &str) -> Option<NamedBackup> {
        let at = self.backups.iter().position(|backup| backup.name == name)?;
        let backup = self.backups.remove(at);
        self.settle_configurations();
        self.note_held();
        Some(backup)
    }

    /// Takes out all backups; their numbers stay given out.
    pub(crate) fn clear_backups(&mut self) {
        self.backups.clear();
        self.configurations.clear();
        self.held.clear();
    }

    /// The backup of this name.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<&NamedBackup> {
        self.backups.iter().find(|backup| backup.name == name)
    }

    /// Whether a backup needs a file that the log was made of from block `from` up to before `until`.
    pub(crate) fn needs(&self, from: Lsn, until: Lsn) -> bool {
        !self.held_between(from, until).is_empty()
    }

    /// A file that blocks from `from` up to before `until` need is gone. Whether a backup has lost it.
    pub(crate) fn lose(&mut self, from: Lsn, until: Lsn) -> bool {
        let mut has_lost = false;
        for backup in self.backups.iter_mut().filter(|backup| backup.needs(from, until)) {
            backup.is_lost = true;
            has_lost = true;
        }
        if has_lost {
            self.note_held();
        }
        has_lost
    }

    /// Adds a command.
    pub(crate) fn add_command(&mut self, noted: NotedCommand) {
        if self.commands.len() >= COMMANDS_MAX {
            self.commands.remove(0);
        }
        self.commands.push(noted);
    }

    /// Takes over a note of the block `lsn`, unless that was done before; notes come in their order. `known` is
    /// the last block with a command that was known before the first of them.
    pub(crate) fn take(&mut self, lsn: Lsn, note: &Note, known: Lsn) {
        let time_ms = note.time_ms;
        match &note.event {
            // No other was ever written; the manifest would not be read again with one.
            NoteEvent::BackupCreated { id, name, lsn: of }
                if *of > lsn || lsn > Lsn::MAX || *id >= ID_END || !is_backup_name(name) => {}
            NoteEvent::BackupCreated { id, name, lsn: of } if *id >= self.next_id => {
                self.next_id = id.saturating_add(1);
                let (name, lsn, noted_lsn) = (name.clone(), *of, lsn);
                let backup = NamedBackup { id: *id, name, lsn, noted_lsn, time_ms, is_lost: false };
                if self.backups.len() < BACKUPS_MAX && self.find(&backup.name).is_none() {
                    self.backups.push(backup);
                    self.note_held();
                }
            }
            NoteEvent::BackupCreated { .. } => {}
            NoteEvent::BackupDeleted { id, .. } => {
                self.backups.retain(|backup| backup.id != *id);
                self.settle_configurations();
                self.note_held();
            }
            NoteEvent::Command(command) if lsn > known => {
                self.add_command(NotedCommand { lsn, time_ms, command: command.clone() });
            }
            NoteEvent::Command(_) => {}
            NoteEvent::BackupConfiguration { id, text } => self.set_configuration(*id, text),
        }
    }

    /// The last block with a command that is known.
    pub(crate) fn last_command(&self) -> Lsn {
        self.commands.last().map_or(Lsn::ZERO, |noted| noted.lsn)
    }

    /// What of it is durable when the log is up to the block `durable`. Backups that are not are found in the log
    /// by a start that finds them durable after all: their numbers must be new to it.
    pub(crate) fn as_of(&self, durable: Lsn) -> Self {
        let (backups, not_yet): (Vec<_>, Vec<_>) =
            self.backups.iter().cloned().partition(|backup| backup.noted_lsn <= durable);
        let next_id = not_yet.first().map_or(self.next_id, |backup| backup.id);
        let commands = self.commands.iter().filter(|noted| noted.lsn <= durable).cloned().collect();
        let mut registry = Self::new(next_id, backups, commands);
        registry.configurations.clone_from(&self.configurations);
        registry.settle_configurations();
        registry
    }

    /// The part that no program may overlook while there are backups.
    pub(crate) fn encode_backups(&self) -> Vec<u8> {
        let mut bytes = self.next_id.to_le_bytes().to_vec();
        for backup in &self.backups {
            varint::put(&mut bytes, backup.id);
            varint::put(&mut bytes, backup.lsn.0);
            varint::put(&mut bytes, backup.noted_lsn.0);
            varint::put(&mut bytes, if backup.is_lost { LOST } else { 0 });
            bytes.extend_from_slice(&backup.time_ms.to_le_bytes());
            varint::put_bytes(&mut bytes, backup.name.as_bytes());
        }
        bytes
    }

    /// The configurations; none where there are none.
    pub(crate) fn encode_configurations(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for Configuration { text, backups } in &self.configurations {
            varint::put_bytes(&mut bytes, text.as_bytes());
            varint::put(&mut bytes, backups.len() as u64);
            backups.iter().for_each(|id| varint::put(&mut bytes, *id));
        }
        bytes
    }

    /// Takes over configurations. None if they make no sense, or are more than this program keeps: nothing but they depends on them.
    pub(crate) fn take_configurations(&mut self, bytes: &[u8]) {
        if self.decode_configurations(bytes).is_none() {
            self.configurations.clear();
        }
    }

    fn decode_configurations(&mut self, mut bytes: &[u8]) -> Option<()> {
        while !bytes.is_empty() {
            let text = varint::take_bytes(&mut bytes)?;
            let text = std::str::from_utf8(text).ok()?;
            for _ in 0..varint::take(&mut bytes)? {
                let id = varint::take(&mut bytes)?;
                let before = self.configuration(id).is_some();
                self.set_configuration(id, text);
                if before || self.configuration(id).is_none() {
                    return None;
                }
            }
        }
        Some(())
    }

    /// The commands.
    pub(crate) fn encode_commands(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for NotedCommand { lsn, time_ms, command } in &self.commands {
            varint::put(&mut bytes, lsn.0);
            let event = NoteEvent::Command(command.clone());
            varint::put_bytes(&mut bytes, &Note { time_ms: *time_ms, event }.encode());
        }
        bytes
    }

    /// The registry that two sections are, either of which may be empty; `None` if they make no sense.
    pub(crate) fn decode(backups: &[u8], mut commands: &[u8]) -> Option<Self> {
        let mut registry = Self::default();
        if !backups.is_empty() {
            let (next_id, mut rest) = backups.split_at_checked(8)?;
            registry.next_id = u64_at(next_id, 0);
            while !rest.is_empty() {
                registry.backups.push(take_backup(&mut rest)?);
            }
        }
        while !commands.is_empty() {
            let lsn = Lsn(varint::take(&mut commands)?);
            let note = Note::decode(varint::take_bytes(&mut commands)?)?;
            let NoteEvent::Command(command) = note.event else { return None };
            registry.commands.push(NotedCommand { lsn, time_ms: note.time_ms, command });
        }
        registry.note_held();
        registry.makes_sense().then_some(registry)
    }

    fn makes_sense(&self) -> bool {
        let Self { next_id, backups, commands, .. } = self;
        let is_good = |backup: &NamedBackup| {
            backup.id < *next_id && backup.lsn <= Lsn::MAX && backup.noted_lsn <= Lsn::MAX
        };
        let mut names: Vec<&str> = backups.iter().map(|backup| backup.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        *next_id < u64::MAX
            && backups.iter().all(is_good)
            && backups.is_sorted_by(|a, b| a.id < b.id)
            && names.len() == backups.len()
            && backups.len() <= BACKUPS_MAX
            && commands.iter().all(|noted| noted.lsn <= Lsn::MAX)
            && commands.is_sorted_by_key(|noted| noted.lsn)
            && commands.len() <= COMMANDS_MAX
    }
}

fn take_backup(rest: &mut &[u8]) -> Option<NamedBackup> {
    let (id, lsn) = (varint::take(rest)?, Lsn(varint::take(rest)?));
    let noted_lsn = Lsn(varint::take(rest)?);
    let is_lost = match varint::take(rest)? {
        0 => false,
        LOST => true,
        _ => return None,
    };
    let (time_ms, after) = rest.split_first_chunk()?;
    *rest = after;
    let name = varint::take_bytes(rest).filter(|name| name.len() <= BACKUP_NAME_BYTES_MAX)?;
    let name = String::from_utf8(name.to_vec()).ok().filter(|name| is_backup_name(name))?;
    Some(NamedBackup { id, name, lsn, noted_lsn, time_ms: i64::from_le_bytes(*time_ms), is_lost })
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(crate) fn backup(id: u64, lsn: u64) -> NamedBackup {
        let (name, noted_lsn) = (format!("b-{id}"), Lsn(lsn + 1));
        NamedBackup { id, name, lsn: Lsn(lsn), noted_lsn, time_ms: 5, is_lost: false }
    }

    fn command(lsn: u64) -> NotedCommand {
        let text = |text: &str| text.to_owned();
        let (user, address, text) = (text("default"), text("10.0.3.7:5"), text("\"FLUSHALL\""));
        let command = DangerousCommand { loses_data: true, user, address, text };
        NotedCommand { lsn: Lsn(lsn), time_ms: 7, command }
    }

    fn registry() -> Registry {
        let lost = NamedBackup { is_lost: true, ..backup(3, 9) };
        let (backups, commands) = (vec![backup(1, 9), lost], vec![command(4), command(4)]);
        Registry::new(4, backups, commands)
    }

    #[test]
    fn what_is_encoded_is_decoded_and_nothing_that_makes_no_sense() {
        let (registry, mut bad) = (registry(), registry());
        let bytes = (registry.encode_backups(), registry.encode_commands());
        assert_eq!(Registry::decode(&bytes.0, &bytes.1), Some(registry));
        assert_eq!(Registry::decode(&[], &[]), Some(Registry::default()));
        assert_eq!(Registry::decode(&bytes.0[..bytes.0.len() - 1], &[]), None);
        bad.next_id = 3;
        assert_eq!(
            Registry::decode(&bad.encode_backups(), &[]),
            None,
            "a number is given out twice"
        );
        bad.next_id = 4;
        bad.backups[1].name = "b-1".to_owned();
        assert_eq!(Registry::decode(&bad.encode_backups(), &[]), None, "a name is there twice");
    }

    #[test]
    fn a_backup_that_is_not_durable_is_found_in_the_log_by_its_number() {
        let registry = Registry::new(6, vec![backup(2, 10), backup(4, 20)], Vec::new());
        let mut known = registry.as_of(Lsn(11));
        assert_eq!((known.backups.len(), known.next_id), (1, 4));
        let event =
            |id: u64, lsn| NoteEvent::BackupCreated { id, name: format!("b-{id}"), lsn: Lsn(lsn) };
        for (lsn, event) in [(11, event(2, 10)), (21, event(4, 20))] {
            known.take(Lsn(lsn), &Note { time_ms: 5, event }, Lsn::ZERO);
        }
        assert_eq!(known.backups, registry.backups);
        let gone = NoteEvent::BackupDeleted { id: 4, name: "b-4".to_owned() };
        known.take(Lsn(22), &Note { time_ms: 6, event: gone }, Lsn::ZERO);
        // What was read before is read again by the next start.
        known.take(Lsn(21), &Note { time_ms: 5, event: event(4, 20) }, Lsn::ZERO);
        assert_eq!((known.backups, known.next_id), (vec![backup(2, 10)], 5));
    }

    #[test]
    fn configurations_are_kept_once_and_go_with_their_backups() {
        let mut registry =
            Registry::new(9, vec![backup(1, 9), backup(3, 9), backup(5, 9)], Vec::new());
        let taken = |registry: &Registry| {
            [1, 3, 5, 7].map(|id| registry.configuration(id).map(str::to_owned))
        };
        for (id, text) in [(1, "hz 10"), (3, "hz 10"), (5, "hz 20"), (7, "hz 30"), (5, "other")] {
            registry.set_configuration(id, text);
        }
        let text = |text: &str| Some(text.to_owned());
        assert_eq!(taken(&registry), [text("hz 10"), text("hz 10"), text("hz 20"), None]);
        assert_eq!(registry.configurations.len(), 2);
        let bytes = registry.encode_configurations();
        let mut again = Registry::decode(&registry.encode_backups(), &[]).unwrap();
        again.decode_configurations(&bytes).unwrap();
        assert_eq!(again, registry);
        assert_eq!(again.decode_configurations(&bytes), None, "each backup has one");
        assert_eq!(taken(&registry.as_of(Lsn(20))), taken(&registry));
        registry.remove_backup("b-1").unwrap();
        registry.remove_backup("b-5").unwrap();
        assert_eq!(taken(&registry), [None, text("hz 10"), None, None]);
        assert_eq!(registry.configurations.len(), 1);
        registry.set_configuration(3, &"x".repeat(CONFIGURATION_BYTES_MAX + 1));
        assert_eq!(registry.configuration(3), Some("hz 10"));
    }

    #[test]
    fn a_note_that_makes_no_sense_leaves_a_registry_that_does() {
        let mut registry = registry();
        for (id, name, of) in [
            (u64::MAX, "n", 5),
            (u64::MAX - 1, "n", 5),
            (7, "a/b", 5),
            (7, "n", u64::MAX),
            (7, "n", 51),
        ] {
            let event = NoteEvent::BackupCreated { id, name: name.to_owned(), lsn: Lsn(of) };
            registry.take(Lsn(50), &Note { time_ms: 5, event }, Lsn::ZERO);
        }
        assert_eq!(registry, super::tests::registry());
    }

    #[test]
    fn a_backup_needs_the_files_of_its_block() {
        let mut registry = registry();
        assert!(registry.needs(Lsn(9), Lsn(10)) && !registry.needs(Lsn(3), Lsn(9)));
        assert!(!registry.needs(Lsn(10), Lsn(11)));
        assert!(registry.lose(Lsn(9), Lsn(10)) && !registry.needs(Lsn(9), Lsn(10)));
    }
}
