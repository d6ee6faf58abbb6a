//! The first pass: everything that can be seen without a keyspace.

use std::collections::BTreeMap;
use std::io::Read;

use command::names::Names;
use keyspace::Type;
use rdb::{Checksum, Event, Key, Kind, Limits, Reader};

use super::aof::{Commands, Next, NoCommand};
use super::contents::{Contents, Keys};
use super::error::{Unusable, shown};
use super::functions::{BROKEN_LIBRARIES, FunctionChange, FunctionsAlone};
use super::play::{Role, index_of_select, role};
use super::source::{Form, Source, SourceFile};
use super::{ImportError, Progress, Stage, Teller};
use crate::config::Config;

/// What is imported of files, and how.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    pub(super) databases: usize,
    pub(super) string_bytes_max: u64,
    pub(super) names: Names,
    pub(super) skips_unknown: bool,
    takes_truncated: bool,
}

impl Rules {
    pub(super) fn of(config: &Config) -> Self {
        let options = config.options();
        Self {
            databases: options.databases,
            string_bytes_max: options.bulk_bytes_max,
            names: config.commands().clone(),
            skips_unknown: config.is_yes("import-skip-unknown"),
            takes_truncated: config.is_yes("aof-load-truncated"),
        }
    }

    pub(super) fn limits(&self) -> Limits {
        Limits { string_bytes_max: self.string_bytes_max }
    }
}

/// Files in which nothing is wrong, as far as they alone can tell.
#[derive(Clone, Debug)]
pub struct Checked {
    /// What is in them; of commands it is not known what they will leave.
    pub contents: Contents,
    /// What the user should know of them.
    pub warnings: Vec<String>,
    /// Up to where each file counts.
    pub(super) ends: Vec<u64>,
    pub(super) rules: Rules,
}

/// The name of a type as a dump has it.
pub(super) const fn type_of(kind: Kind) -> Type {
    match kind {
        Kind::String => Type::String,
        Kind::List => Type::List,
        Kind::Set => Type::Set,
        Kind::ZSet => Type::ZSet,
        Kind::Hash => Type::Hash,
        Kind::Stream => Type::Stream,
    }
}

/// Reads every byte of the files.
///
/// # Errors
/// What is wrong with them, or that there is what is not served; nothing was made.
pub fn check(
    source: &Source,
    config: &Config,
    tell: &mut dyn FnMut(Progress),
) -> Result<Checked, ImportError> {
    let rules = Rules::of(config);
    let mut teller = Teller::new(Stage::Checking, source.bytes(), tell);
    let mut pass = Pass {
        rules,
        contents: Contents::default(),
        warnings: Vec::new(),
        functions: FunctionsAlone::default(),
    };
    let mut ends = Vec::new();
    for (index, file) in source.files.iter().enumerate() {
        let is_last = index + 1 == source.files.len();
        ends.push(pass.file(file, is_last, &mut teller)?);
        teller.end_file(file.bytes);
    }
    let Pass { rules, mut contents, warnings, functions } = pass;
    contents.libraries = functions.count();
    if let Some(what) = contents.not_served_text().filter(|_| !rules.skips_unknown) {
        return Err(ImportError::NotServed { path: source.path().to_owned(), what });
    }
    Ok(Checked { contents, warnings, ends, rules })
}

/// A transaction whose end was not read yet.
struct Transaction {
    offset: u64,
    commands_before: u64,
    not_served_before: BTreeMap<String, u64>,
    /// What it does to libraries when it ends, if it does.
    functions: Vec<Queued>,
}

/// A command that changes libraries.
struct Queued {
    change: FunctionChange,
    offset: u64,
    args: Vec<Vec<u8>>,
}

struct Pass {
    rules: Rules,
    contents: Contents,
    warnings: Vec<String>,
    functions: FunctionsAlone,
}

impl Pass {
    /// Checks a file. Returns up to where it counts.
    fn file(
        &mut self,
        file: &SourceFile,
        is_last: bool,
        teller: &mut Teller<'_>,
    ) -> Result<u64, ImportError> {
        let dump_error = |source: rdb::Error| ImportError::Dump { path: file.path.clone(), source };
        let source = file.read_to(file.bytes);
        let limits = self.rules.limits();
        match file.form {
            Form::Dump => {
                let mut reader = Reader::new(source, limits).map_err(dump_error)?;
                self.dump(file, &mut reader, teller)?;
                Ok(file.bytes)
            }
            Form::Aof if file.begins_as_dump()? => {
                let mut reader = Reader::embedded(source, limits).map_err(dump_error)?;
                self.dump(file, &mut reader, teller)?;
                let offset = reader.offset();
                self.commands(file, is_last, reader.into_rest(), offset, teller)
            }
            Form::Aof => self.commands(file, is_last, source, 0, teller),
        }
    }

    fn dump<R: Read>(
        &mut self,
        file: &SourceFile,
        reader: &mut Reader<R>,
        teller: &mut Teller<'_>,
    ) -> Result<(), ImportError> {
        let (mut database, mut keys) = (0, Keys::default());
        loop {
            let event = reader
                .next()
                .map_err(|source| ImportError::Dump { path: file.path.clone(), source })?;
            match event {
                Event::Database(index) => {
                    self.contents.add(database, std::mem::take(&mut keys));
                    database = index;
                    self.check_database(file, index)?;
                }
                Event::Key(Key { kind, expires_at_ms, .. }) => {
                    keys.note(type_of(kind));
                    keys.expiring += u64::from(expires_at_ms.is_some());
                }
                Event::EndOfKey => teller.note_item(reader.offset()),
                Event::Foreign { what, .. } => {
                    self.contents.note_not_served(&format!("keys of type {what}"));
                }
                Event::Empty { .. } => self.contents.empty += 1,
                Event::Ignored { what } => self.contents.note_left_out(what),
                Event::Function(source) => {
                    if let Err(why) = self.functions.take_dumped(source) {
                        if !self.rules.skips_unknown {
                            let path = file.path.clone();
                            return Err(ImportError::Library { path, why });
                        }
                        self.contents.note_not_served(BROKEN_LIBRARIES);
                    }
                }
                Event::End { checksum } => {
                    self.contents.add(database, keys);
                    if checksum == Checksum::Absent {
                        self.warnings.push(format!(
                            "{} has no checksum: that its bytes are right could not be checked",
                            file.path.display()
                        ));
                    }
                    return Ok(());
                }
                // The elements of a large value.
                _ => teller.note_offset(reader.offset()),
            }
        }
    }

    fn check_database(&self, file: &SourceFile, index: u32) -> Result<(), ImportError> {
        let databases = self.rules.databases;
        if u64::from(index) < databases as u64 {
            return Ok(());
        }
        Err(ImportError::Databases { path: file.path.clone(), index, databases })
    }

    fn commands<R: Read>(
        &mut self,
        file: &SourceFile,
        is_last: bool,
        source: R,
        offset: u64,
        teller: &mut Teller<'_>,
    ) -> Result<u64, ImportError> {
        let mut commands = Commands::new(source, offset, self.rules.string_bytes_max);
        let mut multi: Option<Transaction> = None;
        loop {
            let at = commands.offset();
            let next = commands.next().map_err(|why| no_command(file, at, why))?;
            let Next::Command { offset, end } = next else {
                if next == Next::End && multi.is_none() {
                    return Ok(file.bytes);
                }
                let before = (commands.offset(), self.contents.commands);
                let (valid, count) = match multi {
                    Some(cut) => {
                        // It is left out as a whole, and so is what it has that is not served.
                        self.contents.not_served = cut.not_served_before;
                        (cut.offset, cut.commands_before)
                    }
                    None => before,
                };
                self.contents.commands = count;
                return self.truncated(file, is_last, valid);
            };
            let args = commands.args();
            let wrong = |what| wrong_command(file, offset, &args, what);
            let role = role(&self.rules, &args).map_err(wrong)?;
            match role {
                Role::Multi if multi.is_some() => return Err(wrong(Unusable::InTransaction)),
                Role::Multi => {
                    let commands_before = self.contents.commands;
                    let not_served_before = self.contents.not_served.clone();
                    let functions = Vec::new();
                    let begun =
                        Transaction { offset, commands_before, not_served_before, functions };
                    multi = Some(begun);
                }
                Role::Exec => {
                    let ended = multi.take().ok_or_else(|| wrong(Unusable::NoTransaction))?;
                    ended.functions.iter().try_for_each(|queued| self.change(file, queued))?;
                }
                Role::Select => {
                    let index =
                        index_of_select(&args).ok_or_else(|| wrong(Unusable::NoDatabase))?;
                    self.check_database(file, index)?;
                }
                Role::Scripts => self.contents.note_left_out("commands of scripts"),
                Role::Functions(change) => {
                    let args = args.iter().map(|arg| arg.to_vec()).collect();
                    let queued = Queued { change, offset, args };
                    match &mut multi {
                        Some(transaction) => transaction.functions.push(queued),
                        None => self.change(file, &queued)?,
                    }
                }
                Role::NotServed(what) => self.contents.note_not_served(&what),
                _ => {}
            }
            self.contents.commands += 1;
            teller.note_item(end);
        }
    }

    fn change(&mut self, file: &SourceFile, queued: &Queued) -> Result<(), ImportError> {
        let args: Vec<&[u8]> = queued.args.iter().map(Vec::as_slice).collect();
        let changed = self.functions.execute(queued.change, &args);
        changed.map_err(|why| wrong_command(file, queued.offset, &args, why.into()))
    }

    /// A file ends in the middle of what begins at `offset`.
    fn truncated(
        &mut self,
        file: &SourceFile,
        is_last: bool,
        offset: u64,
    ) -> Result<u64, ImportError> {
        let dropped_bytes = file.bytes - offset;
        let remedy = match (is_last, self.rules.takes_truncated) {
            (true, true) => {
                self.warnings.push(format!(
                    "{} ends in the middle of a command or transaction: {dropped_bytes} bytes from byte {offset} on \
                     are left out",
                    file.path.display()
                ));
                return Ok(offset);
            }
            (true, false) => "aof-load-truncated yes leaves out what is behind that",
            (false, _) => "only the last file may: use another copy",
        };
        Err(ImportError::Truncated { path: file.path.clone(), offset, dropped_bytes, remedy })
    }
}

/// The error for a command that cannot be read.
pub(super) fn no_command(file: &SourceFile, offset: u64, why: NoCommand) -> ImportError {
    let path = file.path.clone();
    match why {
        NoCommand::Unread(source) => env::FileError::Io { path, doing: "read", source }.into(),
        NoCommand::TooLong(bytes) => ImportError::TooLong { path, offset, bytes },
        NoCommand::Damaged(what) => ImportError::Aof { path, offset, what },
    }
}

/// The error for a command that cannot be executed.
pub(super) fn wrong_command(
    file: &SourceFile,
    offset: u64,
    args: &[&[u8]],
    what: Unusable,
) -> ImportError {
    const SHOWN_WORDS: usize = 4;
    let mut words: Vec<String> = args.iter().take(SHOWN_WORDS).map(|arg| shown(arg)).collect();
    if args.len() > SHOWN_WORDS {
        words.push(format!("… ({} words)", args.len()));
    }
    ImportError::Command { path: file.path.clone(), offset, command: words.join(" "), what }
}
