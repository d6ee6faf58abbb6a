//! Files as data: the parquet crate reads them, and the parts of a key are joined.

use std::fs::File;
use std::path::Path;

use analytics::{HEAD_COLUMNS, file_name};
use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, TimestampMillisecondType, UInt32Type};
use arrow_array::{Array, ArrayRef, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::ParquetMetaData;
use rdb::{Kind, Value};

use crate::data::{Data, Entry};

pub(crate) const KINDS: [Kind; 5] = [Kind::String, Kind::List, Kind::Set, Kind::ZSet, Kind::Hash];

/// Returns everything that an export has written, and checks that parts are in order.
pub(crate) fn read_back(out: &Path) -> Data {
    let mut data = Data::new();
    for kind in KINDS {
        let mut before: Option<((u32, Vec<u8>), u32)> = None;
        for batch in batches(out, kind).1 {
            for row in 0..batch.num_rows() {
                let (place, part, entry) = read_row(&batch, row, kind);
                match part {
                    0 => assert!(
                        data.insert(place.clone(), entry).is_none(),
                        "{place:?} is there twice"
                    ),
                    part => {
                        assert_eq!(
                            before,
                            Some((place.clone(), part - 1)),
                            "parts follow each other"
                        );
                        join(data.get_mut(&place).unwrap(), entry);
                    }
                }
                before = Some((place, part));
            }
        }
    }
    data
}

/// Returns what a file says of itself, and its rows.
pub(crate) fn batches(out: &Path, kind: Kind) -> (ParquetMetaData, Vec<RecordBatch>) {
    let file = File::open(out.join(file_name(kind))).unwrap();
    let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
    let metadata = ParquetMetaData::clone(builder.metadata());
    (metadata, builder.build().unwrap().map(Result::unwrap).collect())
}

/// Returns the value of a name in a file's metadata.
pub(crate) fn fact(metadata: &ParquetMetaData, name: &str) -> Option<String> {
    let facts = metadata.file_metadata().key_value_metadata()?;
    facts.iter().find(|fact| fact.key == name)?.value.clone()
}

fn binaries(array: &ArrayRef) -> Vec<Vec<u8>> {
    array
        .as_binary::<i32>()
        .iter()
        .map(|item| item.expect("elements are never null").to_vec())
        .collect()
}

fn read_row(batch: &RecordBatch, row: usize, kind: Kind) -> ((u32, Vec<u8>), u32, Entry) {
    let number = |column: usize| batch.column(column).as_primitive::<UInt32Type>().value(row);
    let key = batch.column(1).as_binary::<i32>().value(row).to_vec();
    let expires = batch.column(2).as_primitive::<TimestampMillisecondType>();
    let expires_at_ms = expires.is_valid(row).then(|| expires.value(row));
    let last = batch.columns().last().unwrap();
    let value = match kind {
        Kind::String => Value::String(last.as_binary::<i32>().value(row).to_vec()),
        Kind::List => Value::List(binaries(&last.as_list::<i32>().value(row))),
        Kind::Set => Value::Set(binaries(&last.as_list::<i32>().value(row))),
        Kind::ZSet => {
            let scored = last.as_list::<i32>().value(row);
            let scored = scored.as_struct();
            let scores = scored.column(1).as_primitive::<Float64Type>();
            Value::ZSet(
                binaries(scored.column(0)).into_iter().zip(scores.values().to_vec()).collect(),
            )
        }
        Kind::Hash => {
            let mut fields: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
            let schema = batch.schema();
            for index in HEAD_COLUMNS.len()..batch.num_columns() - 1 {
                let column = batch.column(index).as_binary::<i32>();
                if column.is_valid(row) {
                    let name = schema.field(index).name().clone().into_bytes();
                    fields.push((name, column.value(row).to_vec()));
                }
            }
            let pairs = last.as_map().value(row);
            fields.extend(binaries(pairs.column(0)).into_iter().zip(binaries(pairs.column(1))));
            Value::Hash(fields)
        }
    };
    ((number(0), key), number(3), Entry { expires_at_ms, value })
}

fn join(entry: &mut Entry, part: Entry) {
    assert_eq!(entry.expires_at_ms, part.expires_at_ms);
    match (&mut entry.value, part.value) {
        (Value::String(bytes), Value::String(more)) => bytes.extend(more),
        (Value::List(items), Value::List(more)) | (Value::Set(items), Value::Set(more)) => {
            items.extend(more)
        }
        (Value::ZSet(members), Value::ZSet(more)) => members.extend(more),
        (Value::Hash(fields), Value::Hash(more)) => fields.extend(more),
        other => panic!("parts of different types: {other:?}"),
    }
}
