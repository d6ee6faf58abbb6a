//! A dump, key by key, into a keyspace.
//!
//! ```text
//!   Reader ── Key ── element, element, … ── EndOfKey ──►  update of the key: a guard takes elements as they are
//!                    └── PIECE_BYTES ──┘                  read, then the log gets its turn, then the next update
//! ```
//!
//! A value grows in the keyspace, and nowhere else. Keys that have expired are read and left out, as Redis
//! does when it loads a dump; in front of an AOF they are kept, because the commands behind may change them.

use std::io::Read;

use base::DbIndex;
use keyspace::Keyspace;
use keyspace::collection::Collection;
use keyspace::hash::{Field, Hash};
use keyspace::list::{End, List};
use keyspace::set::Set;
use keyspace::stream::Stream;
use keyspace::zset::ZSet;
use rdb::{BadGroup, Event, Key, Kind, Reader};

use super::check::type_of;
use super::contents::{Contents, Keys};
use super::error::shown;
use super::source::SourceFile;
use super::stream::StreamLoad;
use super::strings::{Strings, Use};
use super::{ImportError, Target, Teller};

/// So many bytes of elements are taken before the log gets its turn.
const PIECE_BYTES: usize = 256 << 10;

/// What an element counts for besides its bytes.
const ELEMENT_BYTES: usize = 16;

/// See the file's top.
pub(super) struct DumpLoad<'a, R> {
    pub(super) file: &'a SourceFile,
    pub(super) reader: Reader<R>,
    pub(super) target: &'a mut Target,
    pub(super) databases: usize,
    pub(super) contents: &'a mut Contents,
    /// Keys that expire before that are left out.
    pub(super) drops_expired_before_ms: Option<i64>,
}

/// A key whose value is read.
#[derive(Default)]
struct OpenKey {
    name: Vec<u8>,
    expires_at_ms: Option<i64>,
    usage: Use,
}

impl<R: Read> DumpLoad<'_, R> {
    /// Loads all of it. Returns the reader, which stands behind its end.
    pub(super) fn run(mut self, teller: &mut Teller<'_>) -> Result<Reader<R>, ImportError> {
        let (mut db, mut keys, mut key) = (DbIndex::FIRST, Keys::default(), OpenKey::default());
        let mut strings = Strings::default();
        loop {
            let kind = match self.next()? {
                Event::Database(index) => {
                    self.add_keys(db, std::mem::take(&mut keys));
                    self.put(db, &mut strings)?;
                    let number = usize::try_from(index).ok();
                    let found = number.and_then(|it| DbIndex::checked(it, self.databases));
                    db = found.ok_or_else(|| ImportError::Databases {
                        path: self.file.path.clone(),
                        index,
                        databases: self.databases,
                    })?;
                    continue;
                }
                Event::Key(Key { key: name, kind, expires_at_ms, idle_s, frequency, .. }) => {
                    key.name.clear();
                    key.name.extend_from_slice(name);
                    key.expires_at_ms = expires_at_ms;
                    key.usage = Use { idle_s, frequency };
                    kind
                }
                Event::End { .. } => {
                    self.add_keys(db, keys);
                    self.put(db, &mut strings)?;
                    return Ok(self.reader);
                }
                Event::Empty { .. } => {
                    self.contents.empty += 1;
                    continue;
                }
                Event::Function(source) => {
                    let source = source.to_vec();
                    self.library(&source)?;
                    continue;
                }
                // What is not served was counted when the files were checked.
                _ => continue,
            };
            let expired = self.drops_expired_before_ms;
            if key.expires_at_ms.is_some_and(|at_ms| expired.is_some_and(|now_ms| at_ms < now_ms)) {
                self.contents.expired += 1;
                self.pass_over()?;
            } else {
                self.fill(db, kind, &key, &mut strings)?;
                keys.note(type_of(kind));
                keys.expiring += u64::from(key.expires_at_ms.is_some());
            }
            teller.note_item(self.reader.offset());
        }
    }

    fn add_keys(&mut self, db: DbIndex, keys: Keys) {
        self.contents.add(u32::try_from(db.get()).expect("it came from one"), keys);
    }

    fn next(&mut self) -> Result<Event<'_>, ImportError> {
        let file = self.file;
        self.reader.next().map_err(|source| ImportError::Dump { path: file.path.clone(), source })
    }

    /// Takes a library of functions. One that cannot be loaded was counted when the files were checked.
    fn library(&mut self, source: &[u8]) -> Result<(), ImportError> {
        let Target { functions, keyspace, .. } = &mut *self.target;
        let _was_counted = functions.take_dumped(source, keyspace);
        self.target.breathe()
    }

    /// Reads the rest of a value.
    fn pass_over(&mut self) -> Result<(), ImportError> {
        while self.next()? != Event::EndOfKey {}
        Ok(())
    }

    /// Reads a value into the keyspace.
    fn fill(
        &mut self,
        db: DbIndex,
        kind: Kind,
        key: &OpenKey,
        strings: &mut Strings,
    ) -> Result<(), ImportError> {
        if kind == Kind::String {
            return self.string(db, key, strings);
        }
        // A key among them may be this one.
        self.put(db, strings)?;
        match kind {
            Kind::String => unreachable!("it was treated above"),
            Kind::List => self.collection::<List>(db, key, |list, event| {
                if let Event::Item(item) = event {
                    list.push(End::Back, item);
                }
                true
            }),
            Kind::Set => self.collection::<Set>(db, key, |set, event| match event {
                Event::Member(member) => set.add(member),
                _ => true,
            }),
            Kind::ZSet => self.collection::<ZSet>(db, key, |zset, event| match *event {
                Event::Scored(member, score) => zset.set(member, score).is_none(),
                _ => true,
            }),
            Kind::Hash => {
                if self.reader.has_times() {
                    self.target.keyspace.declare_expiring_fields();
                }
                self.collection::<Hash>(db, key, |hash, event| match *event {
                    Event::Field { name, value, expires_at_ms } => {
                        hash.put(&Field { name, value, expires_at_ms })
                    }
                    _ => true,
                })
            }
            Kind::Stream => self.stream(db, key),
        }?;
        let keyspace: &mut Keyspace = &mut self.target.keyspace;
        if key.expires_at_ms.is_some() {
            keyspace.set_expires_at_ms(db, &key.name, key.expires_at_ms);
        }
        key.usage.note(keyspace, db, &key.name);
        self.target.breathe()
    }

    fn string(
        &mut self,
        db: DbIndex,
        key: &OpenKey,
        strings: &mut Strings,
    ) -> Result<(), ImportError> {
        let Event::String(value) = self.next()? else {
            unreachable!("a string follows its key");
        };
        let is_full = strings.push(&key.name, value, key.expires_at_ms, key.usage);
        self.pass_over()?;
        if is_full {
            self.put(db, strings)?;
        }
        Ok(())
    }

    /// Puts strings into the keyspace that were read.
    fn put(&mut self, db: DbIndex, strings: &mut Strings) -> Result<(), ImportError> {
        strings
            .put(&mut self.target.keyspace, db)
            .map_err(|key| self.duplicate(db, &key, "a key that stands twice"))?;
        self.target.breathe()
    }

    /// Reads elements into a collection, some at a time; `add` says whether one is new.
    fn collection<C: Collection>(
        &mut self,
        db: DbIndex,
        key: &OpenKey,
        add: impl Fn(&mut C::Guard<'_>, &Event<'_>) -> bool,
    ) -> Result<(), ImportError> {
        if self.target.keyspace.exists(db, &key.name, false) {
            return Err(self.duplicate(db, &key.name, "a key that stands twice"));
        }
        loop {
            let Self { reader, target, .. } = &mut *self;
            let mut end = Ok(None);
            let keyspace: &mut Keyspace = &mut target.keyspace;
            let updated = keyspace.update::<C, _>(db, &key.name, true, |guard| {
                end = take_elements(reader, |event| add(guard, event));
            });
            assert!(
                matches!(updated, Ok(Some(_))),
                "there was no such key, and all of it is in memory"
            );
            match end {
                Ok(None) => self.target.breathe()?,
                Ok(Some(Stop::End)) => return Ok(()),
                Ok(Some(Stop::Duplicate)) => {
                    return Err(self.duplicate(
                        db,
                        &key.name,
                        "an element that stands twice in a value",
                    ));
                }
                Err(source) => {
                    return Err(ImportError::Dump { path: self.file.path.clone(), source });
                }
            }
        }
    }

    /// Reads a stream, some of it at a time.
    fn stream(&mut self, db: DbIndex, key: &OpenKey) -> Result<(), ImportError> {
        if self.target.keyspace.exists(db, &key.name, false) {
            return Err(self.duplicate(db, &key.name, "a key that stands twice"));
        }
        self.target.keyspace.declare_streams();
        let mut load = StreamLoad::default();
        loop {
            let Self { reader, target, .. } = &mut *self;
            let mut end = Ok(Ok(false));
            let keyspace: &mut Keyspace = &mut target.keyspace;
            let updated = keyspace.update::<Stream, _>(db, &key.name, true, |stream| {
                end = take_of_stream(reader, |event| load.take(stream, event));
            });
            assert!(
                matches!(updated, Ok(Some(_))),
                "there was no such key, and all of it is in memory"
            );
            let path = || self.file.path.clone();
            match end {
                Ok(Ok(false)) => self.target.breathe()?,
                Ok(Ok(true)) => return Ok(()),
                Ok(Err(BadGroup(what))) => {
                    let offset = self.reader.offset();
                    let source = rdb::Error::Corrupt { offset, what };
                    return Err(ImportError::Dump { path: path(), source });
                }
                Err(source) => return Err(ImportError::Dump { path: path(), source }),
            }
        }
    }

    fn duplicate(&self, db: DbIndex, key: &[u8], what: &'static str) -> ImportError {
        let (path, key) = (self.file.path.clone(), shown(key));
        ImportError::Duplicate { path, what, key, database: db.get() }
    }
}

/// Why no more elements are taken.
enum Stop {
    End,
    Duplicate,
}

/// Takes about [`PIECE_BYTES`] of a stream. Whether that was its end.
fn take_of_stream<R: Read>(
    reader: &mut Reader<R>,
    mut take: impl FnMut(&Event<'_>) -> Result<(), BadGroup>,
) -> Result<Result<bool, BadGroup>, rdb::Error> {
    let mut bytes = 0;
    // An entry that was begun is added by what comes behind it, so at least two things are taken.
    while bytes < PIECE_BYTES {
        let event = reader.next()?;
        bytes += ELEMENT_BYTES;
        if let Event::Pair(name, value) = event {
            bytes += name.len() + value.len();
        }
        if let Err(bad) = take(&event) {
            return Ok(Err(bad));
        }
        if event == Event::EndOfKey {
            return Ok(Ok(true));
        }
    }
    Ok(Ok(false))
}

/// Takes about [`PIECE_BYTES`] of elements.
fn take_elements<R: Read>(
    reader: &mut Reader<R>,
    mut add: impl FnMut(&Event<'_>) -> bool,
) -> Result<Option<Stop>, rdb::Error> {
    let mut bytes = 0;
    while bytes < PIECE_BYTES {
        let event = reader.next()?;
        bytes += ELEMENT_BYTES;
        match event {
            Event::EndOfKey => return Ok(Some(Stop::End)),
            Event::Field { name, value, .. } => bytes += name.len() + value.len(),
            Event::Item(element) | Event::Member(element) | Event::Scored(element, _) => {
                bytes += element.len();
            }
            _ => {}
        }
        if !add(&event) {
            return Ok(Some(Stop::Duplicate));
        }
    }
    Ok(None)
}
