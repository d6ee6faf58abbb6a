//! One file: rows gather in a batch, batches in a row group, row groups in the file.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::BinaryBuilder;
use arrow_array::types::TimestampMillisecondType;
use arrow_array::{ArrayRef, PrimitiveArray, RecordBatch, UInt32Array};
use arrow_schema::SchemaRef;
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;
use rdb::{Key, Kind};

use crate::error::Error;
use crate::export::{Options, Written};
use crate::schema::{HEAD_COLUMNS, file_name, schema};
use crate::values::{Element, Values};

/// What a row takes next to its key and its elements.
const ROW_BYTES: usize = 48;

/// Pages hold at most so many values before their size is looked at.
const PAGE_CHECK_VALUES: usize = 1024;

/// The columns of a batch that all files have.
#[derive(Default)]
struct Head {
    databases: Vec<u32>,
    keys: BinaryBuilder,
    expire_at_ms: Vec<Option<i64>>,
    parts: Vec<u32>,
}

/// A key in progress.
struct Open {
    database: u32,
    key: Vec<u8>,
    expires_at_ms: Option<i64>,
    /// The number of the row in progress among those of the key.
    part: u32,
    /// What the elements of that row take.
    row_bytes: usize,
}

/// See the file's top.
pub(crate) struct Table {
    path: PathBuf,
    kind: Kind,
    schema: SchemaRef,
    writer: ArrowWriter<File>,
    options: Options,
    head: Head,
    values: Values,
    open: Option<Open>,
    batch_bytes: usize,
    group_bytes: usize,
    group_rows: usize,
    rows: u64,
    keys: u64,
}

impl Table {
    /// Begins the file of a type in a directory.
    pub(crate) fn create(directory: &Path, kind: Kind, options: &Options) -> Result<Self, Error> {
        let path = directory.join(file_name(kind));
        let file = File::create_new(&path)
            .map_err(|source| Error::Write { path: path.clone(), source })?;
        let schema = schema(kind, &options.fields);
        let properties = WriterProperties::builder()
            .set_compression(options.compression.codec())
            .set_max_row_group_row_count(Some(options.row_group_rows))
            .set_write_batch_size(PAGE_CHECK_VALUES)
            // Every key is there once.
            .set_column_dictionary_enabled(ColumnPath::from(HEAD_COLUMNS[1]), false)
            .set_created_by(concat!("indelible-parquet ", env!("CARGO_PKG_VERSION")).to_owned())
            .build();
        let writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties))
            .map_err(|source| Error::Parquet { path: path.clone(), source })?;
        Ok(Self {
            path,
            kind,
            schema,
            writer,
            options: options.clone(),
            head: Head::default(),
            values: Values::new(kind, &options.fields),
            open: None,
            batch_bytes: 0,
            group_bytes: 0,
            group_rows: 0,
            rows: 0,
            keys: 0,
        })
    }

    /// Begins a key of this type.
    pub(crate) fn begin(&mut self, database: u32, key: &Key<'_>) {
        debug_assert_eq!(key.kind, self.kind, "the caller sorts keys by type");
        self.values.begin_key();
        self.keys += 1;
        self.open = Some(Open {
            database,
            key: key.key.to_vec(),
            expires_at_ms: key.expires_at_ms,
            part: 0,
            row_bytes: 0,
        });
    }

    /// Appends an element of the key in progress, in another row if this one is full.
    pub(crate) fn push(&mut self, element: Element<'_>) -> Result<(), Error> {
        let part_bytes = self.options.bounds.part_bytes;
        if let Element::String(value) = element {
            // An empty string has one part, too.
            let (first, rest) = value.split_at(value.len().min(part_bytes));
            self.append(Element::String(first))?;
            return rest.chunks(part_bytes).try_for_each(|part| {
                self.next_part()?;
                self.append(Element::String(part))
            });
        }
        let row_bytes = self.open().row_bytes;
        if row_bytes > 0 && row_bytes + element.bytes() > part_bytes {
            self.next_part()?;
        }
        self.append(element)
    }

    /// Ends the key in progress.
    pub(crate) fn end(&mut self) -> Result<(), Error> {
        self.end_row()?;
        self.open = None;
        Ok(())
    }

    /// Ends the file: what it has is synced.
    pub(crate) fn finish(mut self, facts: &[(&'static str, String)]) -> Result<Written, Error> {
        assert!(self.open.is_none(), "every key has ended");
        self.write_batch()?;
        for (name, value) in facts {
            self.writer.append_key_value_metadata(KeyValue::new((*name).to_owned(), value.clone()));
        }
        self.writer.append_key_value_metadata(KeyValue::new(
            "indelible-keys".to_owned(),
            self.keys.to_string(),
        ));
        let Self { path, writer, kind, rows, keys, .. } = self;
        let file =
            writer.into_inner().map_err(|source| Error::Parquet { path: path.clone(), source })?;
        let synced = file.sync_all().and_then(|()| file.metadata());
        let bytes = synced.map_err(|source| Error::Write { path, source })?.len();
        Ok(Written { kind, rows, keys, bytes })
    }

    /// Returns how many keys have begun.
    pub(crate) fn keys(&self) -> u64 {
        self.keys
    }

    fn open(&mut self) -> &mut Open {
        self.open.as_mut().expect("a key has begun")
    }

    fn append(&mut self, element: Element<'_>) -> Result<(), Error> {
        let bytes = element.bytes();
        if self.values.push(element).is_err() {
            let Element::Field(name, _) = element else { unreachable!("only fields have columns") };
            let Open { database, key, .. } = self.open();
            return Err(Error::FieldTwice {
                name: name.escape_ascii().to_string(),
                key: key.escape_ascii().to_string(),
                database: *database,
            });
        }
        self.open().row_bytes += bytes;
        Ok(())
    }

    fn next_part(&mut self) -> Result<(), Error> {
        self.end_row()?;
        self.open().part += 1;
        Ok(())
    }

    fn end_row(&mut self) -> Result<(), Error> {
        let open = self.open.as_mut().expect("a key has begun");
        self.head.databases.push(open.database);
        self.head.keys.append_value(&open.key);
        self.head.expire_at_ms.push(open.expires_at_ms);
        self.head.parts.push(open.part);
        self.batch_bytes += ROW_BYTES + open.key.len() + std::mem::take(&mut open.row_bytes);
        self.values.end_row();
        let rows = self.head.parts.len();
        let fills_group = self.group_rows + rows >= self.options.row_group_rows;
        if self.batch_bytes >= self.options.bounds.batch_bytes || fills_group {
            self.write_batch()?;
        }
        Ok(())
    }

    fn write_batch(&mut self) -> Result<(), Error> {
        let rows = self.head.parts.len();
        if rows == 0 {
            return Ok(());
        }
        self.group_bytes += std::mem::take(&mut self.batch_bytes);
        self.group_rows += rows;
        self.rows += rows as u64;
        let is_full = self.group_bytes >= self.options.bounds.row_group_bytes
            || self.group_rows >= self.options.row_group_rows;
        let written = self
            .batch()
            .and_then(|batch| self.writer.write(&batch))
            .and_then(|()| if is_full { self.writer.flush() } else { Ok(()) });
        if is_full {
            (self.group_bytes, self.group_rows) = (0, 0);
        }
        written.map_err(|source| Error::Parquet { path: self.path.clone(), source })
    }

    /// Returns the rows so far, and begins anew.
    fn batch(&mut self) -> Result<RecordBatch, ParquetError> {
        let Head { databases, mut keys, expire_at_ms, parts } = std::mem::take(&mut self.head);
        let expire_at =
            PrimitiveArray::<TimestampMillisecondType>::from(expire_at_ms).with_timezone("UTC");
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from(databases)),
            Arc::new(keys.finish()),
            Arc::new(expire_at),
            Arc::new(UInt32Array::from(parts)),
        ];
        columns.extend(self.values.take()?);
        Ok(RecordBatch::try_new(Arc::clone(&self.schema), columns)?)
    }
}
