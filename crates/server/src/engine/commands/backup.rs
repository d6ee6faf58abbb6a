//! BACKUP: named backups, which are blocks that the log can be restored to until they are deleted.

use base::note::{
    BACKUP_NAME_BYTES_MAX, CALLER_BYTES_MAX, COMMAND_BYTES_MAX, CONFIGURATION_BYTES_MAX,
    is_backup_name,
};
use base::{DangerousCommand, Lsn};
use command::argument;
use command::error::{CommandError, Done};
use redo::{BackupPoint, BackupState, NamedBackup};
use resp::Writer;

use super::super::backups::{Cycle, SEALED};
use super::super::shard::LogState;
use super::super::verifying::{Known, KnownBackup};
use super::super::{ClientKey, Engine};
use crate::config::lines_of_users;

/// How many entries BACKUP TIMELINE shows by default.
const SHOWN_DEFAULT: usize = 100;

/// BACKUP CREATE [name] [AT lsn|time|-duration|flush].
pub(super) fn create(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let (name, at) = match args[2..] {
        [] => (None, None),
        [name] => (Some(name), None),
        [word, at] if argument::is(word, "at") => (None, Some(at)),
        [name, word, at] if argument::is(word, "at") => (Some(name), Some(at)),
        _ => return Err(CommandError::Syntax),
    };
    let name = name.map(parse_name).transpose()?;
    if name.as_deref() == Some(SEALED) {
        return Err(CommandError::other("ERR the name 'sealed' is that of BACKUP SEAL's backup"));
    }
    if name.as_deref().is_some_and(is_taken_otherwise) {
        return Err(CommandError::other(
            "ERR the name of a backup is no number, does not begin with '-', and is not 'b-' and digits: those mean something else to restore",
        ));
    }
    let now_ms = engine.time.unix_ms();
    let point = at.map_or(Ok(BackupPoint::Now), |at| parse_point(at, now_ms))?;
    let start_us = engine.deps.clock.monotonic_us();
    let start = engine.sessions[key].connection.output.len();
    let backup = make(engine, name, point)?;
    let elapsed_us = engine.deps.clock.monotonic_us().saturating_sub(start_us);
    let until = match engine.options.log.history_drops_backups {
        true => "in history until it is deleted, or a disk is short of room",
        false => "in history until it is deleted",
    };
    let reply = engine.reply(key);
    reply.array(4);
    reply.bulk_str(&backup.number());
    reply.int(backup.lsn.0.cast_signed());
    reply.int(elapsed_us.cast_signed());
    reply.bulk_str(until);
    engine.depend_durably(key, start, backup.noted_lsn);
    Ok(())
}

/// BACKUP DELETE name.
pub(super) fn delete(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let name = parse_name(args[2])?;
    remove(engine, key, &name)
}

/// BACKUP LIST.
pub(super) fn list(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let backups = engine.known_backups();
    let reply = engine.reply(key);
    reply.array(backups.len());
    for backup in &backups {
        reply.map(7);
        write_backup(reply, backup);
    }
    Ok(())
}

/// BACKUP STATUS [name].
pub(super) fn status(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    match args[2..] {
        [] => {}
        [name] => {
            let name = parse_name(name)?;
            let backups = engine.known_backups();
            let found = backups.iter().find(|it| it.kept.backup.name == name);
            let found = found.ok_or_else(|| no_backup(&name))?;
            let known = engine.verifying.known(&found.kept.backup);
            let reply = engine.reply(key);
            reply.map(11);
            write_backup(reply, found);
            write_known(reply, &known);
            return Ok(());
        }
        _ => return Err(CommandError::Syntax),
    }
    let cycle = engine.backups.cycle;
    let backup = sealed_backup(engine);
    let sealed_state = backup.as_ref().map(|backup| engine.verifying.state_of(backup));
    let bad = sealed_state.filter(|state| *state != "restorable");
    let sealed = backup.map(|backup| backup.time_ms / 1000);
    let (state, error, start_s) = match (sealed, cycle) {
        (Some(sealed_s), _) if let Some(bad) = bad => ("failed", bad, sealed_s),
        (Some(sealed_s), Cycle::Incrementing(start_s)) => ("sealed", "", start_s.min(sealed_s)),
        (Some(sealed_s), _) => ("sealed", "", sealed_s),
        (None, Cycle::Idle) => ("idle", "", 0),
        (None, Cycle::Incrementing(start_s)) => ("incrementing", "", start_s),
        (None, Cycle::Aborted(start_s)) => ("failed", "aborted", start_s),
    };
    let reply = engine.reply(key);
    reply.map(4);
    for (name, value) in [
        ("state", state),
        ("error", error),
        ("start_time", start_s.to_string().as_str()),
        ("end_time", sealed.unwrap_or_default().to_string().as_str()),
    ] {
        reply.bulk_str(name);
        reply.bulk_str(value);
    }
    Ok(())
}

/// BACKUP VERIFY [name]: reads a backup, or all of them and the newest state, in the background.
pub(super) fn verify(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let name = match args[2..] {
        [] => None,
        [name] => Some(parse_name(name)?),
        _ => return Err(CommandError::Syntax),
    };
    check_is_on(engine)?;
    if let Some(name) = &name {
        let backups = engine.shard.log().map(|log| log.backups()).unwrap_or_default();
        if !backups.iter().any(|it| it.backup.name == *name) {
            return Err(no_backup(name));
        }
    }
    match engine.verifying.begin(name) {
        Ok(true) => {
            engine.reply(key).simple("Backup verification started");
            Ok(())
        }
        Ok(false) => Err(CommandError::other(
            "ERR backups are being verified: see verified_percent in BACKUP STATUS name, and INFO",
        )),
        Err(why) => Err(CommandError::Other(format!("ERR cannot verify: {why}").into())),
    }
}

/// BACKUP TIMELINE [COUNT n]: what was noted, the newest first.
pub(super) fn timeline(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let count = match args[2..] {
        [] => SHOWN_DEFAULT,
        [word, count] if argument::is(word, "count") => argument::count(count)?,
        _ => return Err(CommandError::Syntax),
    };
    let (commands, points) = engine.shard.log().map(|log| log.told()).unwrap_or_default();
    let mut entries: Vec<Entry> = Vec::new();
    entries.extend(engine.known_backups().into_iter().map(Entry::Backup));
    entries.extend(points.iter().map(|point| Entry::Point(point.lsn, point.time_ms)));
    entries.extend(
        commands.into_iter().map(|noted| Entry::Command(noted.lsn, noted.time_ms, noted.command)),
    );
    entries.sort_by_key(|entry| std::cmp::Reverse(entry.place()));
    entries.truncate(count);
    let reply = engine.reply(key);
    reply.array(entries.len());
    entries.iter().for_each(|entry| entry.write(reply));
    Ok(())
}

/// BACKUP START: Redis' beginning of a backup.
pub(super) fn start(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    check_log(engine)?;
    if sealed_backup(engine).is_some() {
        return Err(CommandError::other("ERR a backup is sealed: BACKUP CLEANUP removes it"));
    }
    if matches!(engine.backups.cycle, Cycle::Incrementing(_)) {
        return Err(CommandError::other(
            "ERR a backup is in progress: BACKUP SEAL or BACKUP ABORT",
        ));
    }
    engine.backups.cycle = Cycle::Incrementing(engine.time.unix_s());
    engine.reply(key).ok();
    Ok(())
}

/// BACKUP SEAL: the backup is what there is now.
pub(super) fn seal(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    if !matches!(engine.backups.cycle, Cycle::Incrementing(_)) || sealed_backup(engine).is_some() {
        return Err(CommandError::other("ERR no backup is in progress: BACKUP START begins one"));
    }
    let start = engine.sessions[key].connection.output.len();
    let backup = make(engine, Some(SEALED.to_owned()), BackupPoint::Now)?;
    engine.reply(key).ok();
    engine.depend_durably(key, start, backup.noted_lsn);
    Ok(())
}

/// BACKUP ABORT.
pub(super) fn abort(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let Cycle::Incrementing(start_s) = engine.backups.cycle else {
        return Err(CommandError::other("ERR no backup is in progress"));
    };
    if sealed_backup(engine).is_some() {
        return Err(CommandError::other("ERR the backup is sealed: BACKUP CLEANUP removes it"));
    }
    engine.backups.cycle = Cycle::Aborted(start_s);
    engine.reply(key).ok();
    Ok(())
}

/// BACKUP CLEANUP: removes the sealed backup.
pub(super) fn cleanup(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    if sealed_backup(engine).is_some() {
        return remove(engine, key, SEALED);
    }
    match engine.backups.cycle {
        Cycle::Idle => return Err(CommandError::other("ERR there is no backup to clean up")),
        Cycle::Incrementing(_) => {
            let what = "ERR a backup is in progress: BACKUP SEAL or BACKUP ABORT";
            return Err(CommandError::other(what));
        }
        Cycle::Aborted(_) => engine.backups.cycle = Cycle::Idle,
    }
    engine.reply(key).ok();
    Ok(())
}

impl Engine {
    /// The configuration as backups and archives carry it, with the users, of which it has hashes of passwords; or, where all
    /// of them do not fit, with a line that says so.
    pub(in super::super) fn configuration_to_keep(&self) -> String {
        let bytes_max = CONFIGURATION_BYTES_MAX - NO_USERS.len();
        let mut text = self.config.without_secrets(bytes_max);
        if self.has_plain_users() {
            return text;
        }
        let before = text.len();
        text.push_str(USERS_TITLE);
        for line in self.access.users.lines() {
            text.push_str(&lines_of_users(&[line]));
            // There may be thousands more.
            if text.len() > bytes_max {
                text.truncate(before);
                text.push_str(NO_USERS);
                break;
            }
        }
        text
    }

    /// Lets notes follow. A transaction has done so before its first command.
    pub(super) fn declare_notes(&mut self) {
        if !self.in_transaction {
            self.shard.declare_notes();
        }
    }

    /// Notes in the log that a dangerous command was executed, as far as the log takes notes.
    pub(super) fn note_dangerous(&mut self, key: ClientKey, args: &[&[u8]], loses_data: bool) {
        let client = &self.sessions[key];
        let Some(command) = client.session.last_command else { return };
        let mut text = Vec::new();
        for arg in super::redacted(command, args) {
            if !text.is_empty() {
                text.push(b' ');
            }
            super::quote(&arg[..arg.len().min(COMMAND_BYTES_MAX)], &mut text);
            if text.len() > COMMAND_BYTES_MAX {
                break;
            }
        }
        text.truncate(COMMAND_BYTES_MAX);
        let mut user = self.access.text_of(client.session.identity).into_owned();
        user.truncate(user.floor_char_boundary(CALLER_BYTES_MAX));
        let mut address = client.connection.peer.address.clone();
        address.truncate(address.floor_char_boundary(CALLER_BYTES_MAX));
        let command = DangerousCommand {
            loses_data,
            user,
            address,
            text: String::from_utf8_lossy(&text).into_owned(),
        };
        self.declare_notes();
        self.shard.note_command(command, self.time.unix_ms());
    }
}

fn parse_name(name: &[u8]) -> Result<String, CommandError> {
    let name = std::str::from_utf8(name).ok().filter(|name| is_backup_name(name));
    name.map(str::to_owned).ok_or_else(|| {
        let what = format!(
            "ERR the name of a backup has 1 to {BACKUP_NAME_BYTES_MAX} letters, digits, '.', '_' and '-'"
        );
        CommandError::Other(what.into())
    })
}

fn parse_point(at: &[u8], now_ms: i64) -> Result<BackupPoint, CommandError> {
    if argument::is(at, "flush") {
        return Ok(BackupPoint::Flush);
    }
    let text = std::str::from_utf8(at).unwrap_or_default();
    if let Ok(lsn) = text.parse() {
        return Ok(BackupPoint::Lsn(Lsn(lsn)));
    }
    if let Some(ago_ms) = redo::parse_ago(text) {
        return Ok(BackupPoint::Time(now_ms.saturating_sub(ago_ms)));
    }
    redo::parse_time(text).map(BackupPoint::Time).ok_or(CommandError::other(
        "ERR give a block, a time as in 2026-11-22T10:31:05Z, so long ago as in -90s, or flush",
    ))
}

/// Whether there is a log to make backups of, and takes them.
fn check_log(engine: &Engine) -> Done {
    check_is_on(engine)?;
    match engine.shard.write_refusal() {
        Some(refusal) => Err(CommandError::Other(refusal.into())),
        None => Ok(()),
    }
}

/// Whether there is a log.
fn check_is_on(engine: &Engine) -> Done {
    match engine.shard.log_state() {
        LogState::On(_) => Ok(()),
        LogState::Off => Err(CommandError::other(
            "ERR backups are of the redo log, and appendonly is no: CONFIG SET appendonly yes, or BGSAVE",
        )),
        _ => Err(CommandError::other(
            "ERR the redo log is being turned on: try again when it is on (see INFO, redo_turning_on)",
        )),
    }
}

/// What stands above the users in the configuration that a backup carries.
const USERS_TITLE: &str = "# The users\n";

/// What stands there in their place.
const NO_USERS: &str = "# The users do not fit, and are left out\n";

/// Makes a backup. Its block ends with the command, or with the transaction.
fn make(
    engine: &mut Engine,
    name: Option<String>,
    point: BackupPoint,
) -> Result<NamedBackup, CommandError> {
    check_log(engine)?;
    if !engine.shard.may_end_block() {
        // Its block has to end with it: what other clients write next is not to be part of it.
        return Err(CommandError::other("ERR the log is behind with writing: try again"));
    }
    engine.declare_notes();
    let now_ms = engine.time.unix_ms();
    let configuration = engine.configuration_to_keep();
    if configuration.ends_with(NO_USERS) {
        engine.deps.logger.warning(
            "The users do not fit next to the configuration, and are not in the backup; keep the aclfile, or the lines of ACL \
             LIST, elsewhere",
        );
    }
    let backup = engine.shard.create_backup(name, point, now_ms, configuration);
    let backup = backup.map_err(|why| CommandError::Other(format!("ERR {why}").into()))?;
    let now_us = engine.deps.clock.monotonic_us();
    engine.backups.note_asked(backup.noted_lsn, now_us);
    end_block(engine);
    Ok(backup)
}

/// Deletes a backup, and replies.
fn remove(engine: &mut Engine, key: ClientKey, name: &str) -> Done {
    check_is_on(engine)?;
    // On a disk that is full, also of what backups need, it makes room, and is told when the log has that.
    match engine.shard.write_refusal() {
        Some(refusal) if !engine.shard.is_disk_full() => {
            return Err(CommandError::Other(refusal.into()));
        }
        _ => {}
    }
    engine.declare_notes();
    let start = engine.sessions[key].connection.output.len();
    let now_ms = engine.time.unix_ms();
    let lsn = engine.shard.delete_backup(name, now_ms).ok_or_else(|| no_backup(name))?;
    if name == SEALED {
        engine.backups.cycle = Cycle::Idle;
    }
    end_block(engine);
    engine.reply(key).ok();
    engine.depend_durably(key, start, lsn);
    Ok(())
}

fn end_block(engine: &mut Engine) {
    if engine.in_transaction {
        engine.backups.ends_block = true;
    } else {
        engine.shard.end_block();
    }
}

fn no_backup(name: &str) -> CommandError {
    CommandError::Other(format!("ERR there is no backup {name}: see BACKUP LIST").into())
}

fn sealed_backup(engine: &Engine) -> Option<NamedBackup> {
    engine.shard.log().and_then(|log| log.backup(SEALED))
}

/// Whether `indelible restore --at` would take a name for something else: a block, or a time, or a number of a backup.
fn is_taken_otherwise(name: &str) -> bool {
    let is_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    name.starts_with('-') || is_digits(name) || name.strip_prefix("b-").is_some_and(is_digits)
}

/// Four more fields: what is known of it by reading it.
fn write_known(reply: &mut Writer, known: &Known) {
    for (name, value) in [("verified", known.state), ("verified_error", known.why.as_str())] {
        reply.bulk_str(name);
        reply.bulk_str(value);
    }
    let percentage = if known.state == "running" { known.percentage } else { 100 };
    let percentage = if known.state == "never" { 0 } else { percentage };
    for (name, value) in
        [("verified_time_ms", known.time_ms), ("verified_percent", percentage.cast_signed())]
    {
        reply.bulk_str(name);
        reply.int(value);
    }
}

/// The seven fields of a backup.
fn write_backup(reply: &mut Writer, known: &KnownBackup) {
    let KnownBackup { kept: BackupState { backup, files, bytes }, state } = known;
    for (name, value) in
        [("id", backup.number().as_str()), ("name", backup.name.as_str()), ("state", *state)]
    {
        reply.bulk_str(name);
        reply.bulk_str(value);
    }
    let files = i64::try_from(*files).unwrap_or(i64::MAX);
    let lsn = backup.lsn.0.cast_signed();
    for (name, value) in [
        ("lsn", lsn),
        ("time_ms", backup.time_ms),
        ("held_files", files),
        ("held_bytes", bytes.cast_signed()),
    ] {
        reply.bulk_str(name);
        reply.int(value);
    }
}

/// An entry of the timeline.
enum Entry {
    Backup(KnownBackup),
    /// A block behind which databases were emptied or exchanged, and when.
    Point(Lsn, i64),
    Command(Lsn, i64, DangerousCommand),
}

impl Entry {
    /// Its block; of one block commands come first, and then what it is the end of.
    const fn place(&self) -> (Lsn, u8) {
        match self {
            Self::Point(lsn, _) => (*lsn, 2),
            Self::Backup(known) => (known.kept.backup.lsn, 1),
            Self::Command(lsn, ..) => (*lsn, 0),
        }
    }

    fn write(&self, reply: &mut Writer) {
        let (event, lsn, time_ms, texts): (&str, Lsn, i64, Vec<(&str, &str)>) = match self {
            Self::Point(lsn, time_ms) => ("point", *lsn, *time_ms, Vec::new()),
            Self::Backup(KnownBackup { kept: BackupState { backup, .. }, state }) => {
                let texts = vec![("name", backup.name.as_str()), ("state", *state)];
                ("backup", backup.lsn, backup.time_ms, texts)
            }
            Self::Command(lsn, time_ms, DangerousCommand { user, address, text, .. }) => {
                let texts = vec![("user", &**user), ("address", &**address), ("command", &**text)];
                ("command", *lsn, *time_ms, texts)
            }
        };
        reply.map(3 + texts.len());
        reply.bulk_str("event");
        reply.bulk_str(event);
        reply.bulk_str("lsn");
        reply.int(lsn.0.cast_signed());
        reply.bulk_str("time_ms");
        reply.int(time_ms);
        for (name, text) in texts {
            reply.bulk_str(name);
            reply.bulk_str(text);
        }
    }
}
