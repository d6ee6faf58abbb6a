//! From records to changes.

use std::collections::HashMap;

use base::{ObjectId, Record, RecordKind};
use keyspace::stream::StreamRoot;
use keyspace::{BadRecord, Type, plain};

use crate::change::{Change, Element, Place, name_of, type_of_element};
use crate::databases::Databases;
use crate::roots::{Root, Roots};

/// See the crate's essay.
#[derive(Debug)]
pub struct Translator {
    roots: Roots,
    databases: Databases,
    /// Elements of the block whose root comes later in it, by their places in the block.
    held: HashMap<ObjectId, Vec<usize>>,
    /// The first root in the block of each object whose key is not known before.
    rooted: HashMap<ObjectId, usize>,
}

/// What takes changes.
type Visit<'v> = dyn FnMut(&Change<'_>) + 'v;

impl Translator {
    /// One that knows of nothing, and keeps keys of large values in about so many bytes.
    #[must_use]
    pub fn new(roots_bytes_max: usize) -> Self {
        Self {
            roots: Roots::new(roots_bytes_max),
            databases: Databases::default(),
            held: HashMap::new(),
            rooted: HashMap::new(),
        }
    }

    /// How many keys of large values were forgotten for want of room.
    #[must_use]
    pub const fn forgotten(&self) -> u64 {
        self.roots.forgotten()
    }

    /// The memory that the keys of large values take, in bytes.
    #[must_use]
    pub const fn roots_bytes(&self) -> usize {
        self.roots.bytes()
    }

    /// Learns of a record of a block before the first that will be translated; all must come in their order.
    ///
    /// Those that a compaction has dropped may be missing, and no key is wrong for it. Say that object 7 is
    /// believed to be `a`'s by a record that is still in the log, and is not. Then either `a` was given another
    /// value or deleted: object 7 is gone, unless it was renamed. But a RENAME logs that `a` is gone, and such a
    /// record stays for as long as an older one of `a` does: it was met. What databases there are is another
    /// matter: of two `Databases` records the newer one may be missing.
    ///
    /// # Errors
    /// When no keyspace logs such a record.
    pub fn learn(&mut self, record: &Record<'_>) -> Result<(), BadRecord> {
        match record.kind {
            RecordKind::Databases => {
                plain::check(record)?;
                self.replace_databases(Databases::read(record)?);
            }
            kind if kind.is_element() || kind == RecordKind::KeyLost => {}
            kind if kind.is_of_no_database() => {}
            _ => _ = self.bind(record),
        }
        Ok(())
    }

    /// Translates the records of a block.
    ///
    /// # Errors
    /// When no keyspace logs such records; nothing was given out then.
    pub fn block(
        &mut self,
        records: &[Record<'_>],
        visit: &mut Visit<'_>,
    ) -> Result<(), BadRecord> {
        for record in records {
            plain::check(record)?;
            if record.kind == RecordKind::Databases {
                Databases::read(record)?;
            }
        }
        self.held.clear();
        self.rooted.clear();
        for (at, record) in records.iter().enumerate() {
            if record.kind.is_root() && !self.roots.has(record.object) {
                self.rooted.entry(record.object).or_insert(at);
            }
        }
        let mut at = 0;
        while at < records.len() {
            if is_rename(records.get(at..at + 2)) {
                self.record(records, at + 1, visit);
                self.record(records, at, visit);
                at += 2;
            } else {
                self.record(records, at, visit);
                at += 1;
            }
        }
        Ok(())
    }

    fn record(&mut self, records: &[Record<'_>], at: usize, visit: &mut Visit<'_>) {
        let record = &records[at];
        let place = Place { database: self.databases.database(record.db), key: record.key };
        let expires_at_ms = record.expires_at_ms;
        match (record.kind, Type::of_record(record.kind)) {
            (kind, _) if kind.is_element() => {
                let is_early = self.rooted.get(&record.object).is_some_and(|root| *root > at);
                if is_early && !self.roots.has(record.object) {
                    self.held.entry(record.object).or_default().push(at);
                } else {
                    self.element(record, visit);
                }
            }
            (kind, Some(value_type)) if kind.is_root() => {
                let object = record.object;
                let is_string = kind == RecordKind::LargeString;
                let string_bytes = is_string.then(|| plain::string_bytes(record));
                let is_stream = kind == RecordKind::Stream;
                let stream = is_stream.then(|| StreamRoot::read(record.value, 0)).flatten();
                let before = self.bind(record).1;
                let from = before.as_ref().map(|root| self.place_of(root));
                visit(&Change::Root {
                    place,
                    value_type,
                    object,
                    string_bytes,
                    stream,
                    expires_at_ms,
                    from,
                });
                for early in self.held.remove(&object).unwrap_or_default() {
                    self.element(&records[early], visit);
                }
            }
            (_, Some(value_type)) => {
                self.bind(record);
                visit(&Change::Set { place, value_type, record });
            }
            (RecordKind::KeyDeleted, None) => {
                let value_type = self.bind(record).0;
                visit(&Change::Deleted { place, value_type });
            }
            (RecordKind::ValueLost, None) => {
                self.bind(record);
                visit(&Change::ValueLost { place, expires_at_ms });
            }
            (RecordKind::KeyLost, None) => visit(&Change::KeyLost(place.database)),
            (RecordKind::Note, None) => visit(&Change::Note(record.value)),
            (RecordKind::Library, None) => {
                visit(&Change::Library { name: record.key, source: record.value });
            }
            (RecordKind::LibraryDeleted, None) => {
                visit(&Change::LibraryDeleted { name: record.key });
            }
            (_, None) => {
                let databases = Databases::read(record).expect("it was read before");
                let before = self.replace_databases(databases);
                visit(&Change::Databases(&self.databases.moved_since(&before)));
            }
        }
    }

    fn element(&mut self, record: &Record<'_>, visit: &mut Visit<'_>) {
        let Self { roots, databases, .. } = self;
        let root = roots.get(record.object);
        let is_deleted = record.kind == RecordKind::ElementDeleted;
        let type_of_root = root.map(|root| root.value_type);
        let value_type = if is_deleted { type_of_root } else { type_of_element(record.kind) };
        let place = root
            .map(|root| Place { database: databases.database(root.database()), key: root.key() });
        let name = name_of(value_type, record.sub);
        let element = Element { place, value_type, object: record.object, name };
        visit(&if is_deleted {
            Change::ElementDeleted(element)
        } else {
            Change::Element { element, record }
        });
    }

    fn place_of<'a>(&self, root: &'a Root) -> Place<'a> {
        Place { database: self.databases.database(root.database()), key: root.key() }
    }

    /// Takes note of what the key of this record has now. Returns the type of the large value that it had, or
    /// where the one was that it has.
    fn bind(&mut self, record: &Record<'_>) -> (Option<Type>, Option<Root>) {
        match Type::of_record(record.kind) {
            Some(value_type) if record.kind.is_root() => {
                (None, self.roots.bind(record.object, record.db, record.key, value_type))
            }
            _ => (self.roots.unbind(record.db, record.key), None),
        }
    }

    /// Returns what they were before.
    fn replace_databases(&mut self, databases: Databases) -> Databases {
        let before = std::mem::replace(&mut self.databases, databases);
        // One that had no number yet may get one later.
        let now = &self.databases;
        let is_kept = |id| before.index_of(id).is_none() || now.index_of(id).is_some();
        self.roots.keep_databases(is_kept);
        before
    }
}

/// Whether the first says that a key is gone, and the second gives a large value to another one.
fn is_rename(pair: Option<&[Record<'_>]>) -> bool {
    let Some([gone, root]) = pair else { return false };
    let is_other = (gone.db, gone.key) != (root.db, root.key);
    gone.kind == RecordKind::KeyDeleted && root.kind.is_root() && is_other
}
