//! Columns, types and metadata of the files; values in parts.

use std::path::{Path, PathBuf};

use analytics::{Bounds, Compression, Exported, Options, Source, export, file_name};
use arrow_array::Array;
use arrow_array::cast::AsArray;
use rdb::{Checksum, Kind, Value, Version, WriteOptions};

use crate::data::{Data, dump, dump_with, dump_with_times, entry, hash, kind, sample, texts};
use crate::read_back::{KINDS, batches, fact, read_back};

/// A directory with a dump in it.
pub(crate) struct Place(pub(crate) tempfile::TempDir);

impl Place {
    pub(crate) fn of(dump: &[u8]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("dump.rdb"), dump).unwrap();
        Self(directory)
    }

    pub(crate) fn out(&self) -> PathBuf {
        self.0.path().join("out")
    }

    pub(crate) fn export(&self, options: &Options) -> Result<Exported, analytics::Error> {
        export(&Source::File(self.0.path().join("dump.rdb")), &self.out(), options, |_| {})
    }

    /// Returns the names in the directory, but for the dump.
    pub(crate) fn names(&self) -> Vec<String> {
        names(self.0.path()).into_iter().filter(|name| name != "dump.rdb").collect()
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Bounds that make parts and row groups of very little.
pub(crate) fn narrow() -> Bounds {
    Bounds { batch_bytes: 2000, row_group_bytes: 9000, part_bytes: 1000 }
}

fn fields(names: &[&str]) -> Options {
    Options { fields: names.iter().map(ToString::to_string).collect(), ..Options::default() }
}

#[test]
fn every_type_and_length_is_read_back() {
    let place = Place::of(&dump(&sample()));
    let exported = place.export(&Options::default()).unwrap();
    assert_eq!(read_back(&place.out()), sample());
    assert_eq!(place.names(), ["out"]);
    assert_eq!(
        names(&place.out()),
        ["hashes.parquet", "lists.parquet", "sets.parquet", "strings.parquet", "zsets.parquet"]
    );
    assert_eq!(exported.keys(), sample().len() as u64);
    assert_eq!((exported.version, exported.checksum), (Version::Redis(9), Checksum::Right));
    for file in &exported.files {
        let of_kind = sample().values().filter(|it| kind(&it.value) == file.kind).count() as u64;
        assert_eq!((file.keys, file.rows), (of_kind, of_kind));
        let on_disk = place.out().join(file_name(file.kind)).metadata().unwrap().len();
        assert_eq!(file.bytes, on_disk);
        let metadata = batches(&place.out(), file.kind).0;
        for (name, value) in [
            ("indelible-lsn", "42".to_owned()),
            ("indelible-database", "ab12".to_owned()),
            ("redis-ver", "7.0.15".to_owned()),
            ("indelible-total-keys", sample().len().to_string()),
            ("indelible-keys", of_kind.to_string()),
        ] {
            assert_eq!(fact(&metadata, name), Some(value), "{name}");
        }
        assert_eq!(fact(&metadata, "ctime"), None);
    }
}

#[test]
fn columns_are_as_documented() {
    let place = Place::of(&dump(&sample()));
    place.export(&fields(&["name", "born"])).unwrap();
    let form = |kind| {
        let schema = batches(&place.out(), kind).1[0].schema();
        let columns = schema.fields().iter().map(|it| {
            format!("{} {}{}", it.name(), it.data_type(), if it.is_nullable() { "?" } else { "" })
        });
        columns.collect::<Vec<_>>().join(", ")
    };
    const HEAD: &str =
        r#"database UInt32, key Binary, expires_at Timestamp(ms, "UTC")?, part UInt32, "#;
    for (kind, columns) in [
        (Kind::String, "value Binary"),
        (Kind::List, r#"items List(non-null Binary, field: 'element')"#),
        (Kind::Set, r#"members List(non-null Binary, field: 'element')"#),
        (
            Kind::ZSet,
            r#"members List(non-null Struct("member": non-null Binary, "score": non-null Float64), field: 'element')"#,
        ),
        (
            Kind::Hash,
            r#"name Binary?, born Binary?, fields Map("key_value": non-null Struct("key": non-null Binary, "value": non-null Binary), unsorted)"#,
        ),
    ] {
        assert_eq!(form(kind), format!("{HEAD}{columns}"));
    }
}

#[test]
fn fields_by_name_are_null_where_they_are_missing() {
    let place = Place::of(&dump(&sample()));
    place.export(&fields(&["name", "born", "nowhere"])).unwrap();
    let batch = batches(&place.out(), Kind::Hash).1.remove(0);
    let column = |name: &str| {
        let column = batch.column_by_name(name).unwrap().as_binary::<i32>().clone();
        let text = |item: Option<&[u8]>| item.map(|it| String::from_utf8(it.to_vec()).unwrap());
        column.iter().map(text).collect::<Vec<_>>()
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(column("key"), [some("user:1"), some("user:2"), some("user:3"), some("hash")]);
    assert_eq!(column("name"), [some("Ada"), some("Alan"), None, None]);
    assert_eq!(column("born"), [some("1815"), None, None, None]);
    assert_eq!(column("nowhere"), [None, None, None, None]);
    let maps = batch.column_by_name("fields").unwrap().as_map();
    let sizes: Vec<usize> = (0..4).map(|row| maps.value(row).len()).collect();
    assert_eq!(sizes, [1, 0, 1, 3000], "a named field is not in the map");
}

#[test]
fn names_that_are_no_columns_are_refused() {
    let place = Place::of(&dump(&sample()));
    for names in [&["key"][..], &["fields"], &["a", "a"], &[""], &["part"]] {
        let error = place.export(&fields(names)).unwrap_err();
        assert!(matches!(error, analytics::Error::Field { .. }), "{error}");
    }
    assert_eq!(place.names(), <[&str; 0]>::default());
}

#[test]
fn a_large_value_is_several_rows() {
    let place = Place::of(&dump(&sample()));
    let options = Options { bounds: narrow(), ..fields(&["7", "2999"]) };
    let exported = place.export(&options).unwrap();
    let mut data = read_back(&place.out());
    // Fields with a column are read before the others of their part.
    for entry in data.values_mut() {
        if let Value::Hash(fields) = &mut entry.value {
            let number = |name: &[u8]| std::str::from_utf8(name).unwrap().parse::<u32>().ok();
            fields.sort_by_key(|(name, _)| number(name));
        }
    }
    assert_eq!(data, sample());
    for file in &exported.files {
        let metadata = batches(&place.out(), file.kind).0;
        assert_eq!(metadata.file_metadata().num_rows(), i64::try_from(file.rows).unwrap());
        if file.kind == Kind::String {
            assert_eq!(file.rows, file.keys - 1 + 100, "100,000 bytes in parts of 1,000");
        }
        if matches!(file.kind, Kind::List | Kind::Hash) {
            assert!(file.rows > file.keys + 50 && metadata.num_row_groups() > 5);
        }
    }
    // The item that is larger than a part is in one piece.
    let items = batches(&place.out(), Kind::List).1;
    let last = items.last().unwrap();
    assert_eq!(last.column(4).as_list::<i32>().value(last.num_rows() - 1).len(), 1);
}

#[test]
fn row_groups_have_as_many_rows_as_is_said() {
    let keys = (0..1000_u32)
        .map(|number| ((0, number.to_string().into_bytes()), entry(Value::String(b"v".to_vec()))));
    let place = Place::of(&dump(&keys.collect()));
    place.export(&Options { row_group_rows: 300, ..Options::default() }).unwrap();
    let metadata = batches(&place.out(), Kind::String).0;
    let rows: Vec<i64> = metadata.row_groups().iter().map(|group| group.num_rows()).collect();
    assert_eq!(rows, [300, 300, 300, 100]);
}

#[test]
fn one_database_is_exported_if_that_is_asked_for() {
    let place = Place::of(&dump(&sample()));
    for database in [0, 3, 4_000_000, 7] {
        let exported =
            place.export(&Options { database: Some(database), ..Options::default() }).unwrap();
        let mut expected = sample();
        expected.retain(|(index, _), _| *index == database);
        assert_eq!(read_back(&place.out()), expected);
        assert_eq!(exported.keys(), expected.len() as u64);
        std::fs::remove_dir_all(place.out()).unwrap();
    }
}

#[test]
fn every_compression_is_read_back() {
    let mut sizes = Vec::new();
    for compression in [Compression::None, Compression::Snappy, Compression::Zstd] {
        let place = Place::of(&dump(&sample()));
        let exported = place.export(&Options { compression, ..Options::default() }).unwrap();
        assert_eq!(read_back(&place.out()), sample(), "{compression:?}");
        sizes.push(exported.files.iter().map(|file| file.bytes).sum::<u64>());
    }
    assert!(sizes.is_sorted_by(|larger, smaller| larger > smaller), "{sizes:?}");
}

#[test]
fn an_empty_dump_has_all_files() {
    let place = Place::of(&dump(&Data::new()));
    let exported = place.export(&fields(&["a"])).unwrap();
    assert_eq!(exported.keys(), 0);
    for kind in KINDS {
        let (metadata, rows) = batches(&place.out(), kind);
        assert!(rows.is_empty());
        assert_eq!(fact(&metadata, "indelible-keys"), Some("0".to_owned()));
        let columns = metadata.file_metadata().schema_descr().root_schema().get_fields().len();
        assert_eq!(columns, if kind == Kind::Hash { 6 } else { 5 });
    }
}

#[test]
fn what_has_no_checksum_is_exported_and_said() {
    let options = WriteOptions { checksum: false, compress: false, ..WriteOptions::default() };
    let place = Place::of(&dump_with(&sample(), options));
    assert_eq!(place.export(&Options::default()).unwrap().checksum, Checksum::Absent);
    assert_eq!(read_back(&place.out()), sample());
}

#[test]
fn times_of_fields_are_counted_and_left_out() {
    let place = Place::of(&dump_with_times());
    let exported = place.export(&Options::default()).unwrap();
    assert_eq!(exported.expiring_fields, 1);
    let expected = [((0, b"h".to_vec()), entry(hash(&[("a", "1"), ("b", "2")])))];
    assert_eq!(read_back(&place.out()), expected.into());
}

/// A stream in the form of Redis 5.0, without entries.
const STREAM: &[u8] = b"\x0f\x06stream\x00\x00\x00\x00\x00";

#[test]
fn a_key_without_a_file_is_refused_or_left_out() {
    let data: Data = [((0, b"list".to_vec()), entry(Value::List(texts(&["a"]))))].into();
    let options = WriteOptions { checksum: false, ..WriteOptions::default() };
    let mut dump = dump_with(&data, options);
    let end = dump.len() - 9;
    dump.splice(end..end, STREAM.iter().copied());
    let place = Place::of(&dump);
    let error = place.export(&Options::default()).unwrap_err().to_string();
    assert!(error.contains("\"stream\" of database 0 is of type stream"), "{error}");
    assert_eq!(place.names(), <[&str; 0]>::default());
    let exported = place.export(&Options { skip_unknown: true, ..Options::default() }).unwrap();
    assert_eq!(exported.skipped.into_iter().collect::<Vec<_>>(), [("stream", 1)]);
    assert_eq!(read_back(&place.out()), data);
    // In a database that is not exported it does no harm.
    std::fs::remove_dir_all(place.out()).unwrap();
    let exported = place.export(&Options { database: Some(1), ..Options::default() }).unwrap();
    assert_eq!((exported.keys(), exported.skipped.len()), (0, 0));
}

#[test]
fn a_field_that_stands_twice_is_noticed_if_it_has_a_column() {
    let data: Data =
        [((0, b"h".to_vec()), entry(hash(&[("a", "1"), ("b", "2"), ("a", "3")])))].into();
    let place = Place::of(&dump(&data));
    for bounds in [Bounds::default(), Bounds { part_bytes: 1, ..Bounds::default() }] {
        let error = place.export(&Options { bounds, ..fields(&["a"]) }).unwrap_err();
        assert!(matches!(error, analytics::Error::FieldTwice { .. }), "{error}");
    }
    assert_eq!(place.names(), <[&str; 0]>::default());
}
