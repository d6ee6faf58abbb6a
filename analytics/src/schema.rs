//! The columns of each file.
//!
//! ```text
//!   every file   database uint32 │ key binary │ expires_at timestamp(ms, UTC)? │ part uint32 │ …
//!   strings      … value binary
//!   lists        … items list<binary>
//!   sets         … members list<binary>
//!   zsets        … members list<struct<member binary, score double>>
//!   hashes       … a binary? │ b binary? │ fields map<binary, binary>        with --fields a,b
//! ```

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use rdb::Kind;

use crate::error::Error;

/// The columns that every file has, in this order.
pub const HEAD_COLUMNS: [&str; 4] = ["database", "key", "expires_at", "part"];

/// The column of a hash's fields that have none of their own.
const FIELDS_COLUMN: &str = "fields";

/// The types that have a file, in the order of their files' report.
pub(crate) const KINDS: [Kind; 5] = [Kind::String, Kind::List, Kind::Set, Kind::ZSet, Kind::Hash];

/// Returns the name of the file for the keys of a type; streams have none yet, and are refused by their type.
#[must_use]
pub const fn file_name(kind: Kind) -> &'static str {
    match kind {
        Kind::String => "strings.parquet",
        Kind::List => "lists.parquet",
        Kind::Set => "sets.parquet",
        Kind::ZSet => "zsets.parquet",
        Kind::Hash => "hashes.parquet",
        Kind::Stream => "streams.parquet",
    }
}

/// Checks that these fields of hashes can be columns.
pub(crate) fn check_fields(names: &[String]) -> Result<(), Error> {
    for (index, name) in names.iter().enumerate() {
        let why = if name.is_empty() {
            "it has no name"
        } else if HEAD_COLUMNS.contains(&name.as_str()) || name == FIELDS_COLUMN {
            "there is a column of this name in every file"
        } else if names[..index].contains(name) {
            "it is named twice"
        } else {
            continue;
        };
        return Err(Error::Field { name: name.clone(), why });
    }
    Ok(())
}

/// Returns the columns of a type's file.
pub(crate) fn schema(kind: Kind, fields: &[String]) -> SchemaRef {
    let mut columns = vec![
        Field::new(HEAD_COLUMNS[0], DataType::UInt32, false),
        Field::new(HEAD_COLUMNS[1], DataType::Binary, false),
        Field::new(
            HEAD_COLUMNS[2],
            DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into())),
            true,
        ),
        Field::new(HEAD_COLUMNS[3], DataType::UInt32, false),
    ];
    match kind {
        Kind::String => columns.push(Field::new("value", DataType::Binary, false)),
        Kind::List => {
            columns.push(Field::new("items", DataType::List(element(DataType::Binary)), false))
        }
        Kind::Set => {
            columns.push(Field::new("members", DataType::List(element(DataType::Binary)), false))
        }
        Kind::ZSet => {
            let scored = DataType::Struct(scored_fields());
            columns.push(Field::new("members", DataType::List(element(scored)), false));
        }
        Kind::Hash => {
            columns.extend(fields.iter().map(|name| Field::new(name, DataType::Binary, true)));
            columns.push(Field::new(FIELDS_COLUMN, DataType::Map(pair(), false), false));
        }
        Kind::Stream => unreachable!("streams are not exported"),
    }
    Arc::new(Schema::new(columns))
}

/// The element of a list, under the name that Parquet's specification gives it.
pub(crate) fn element(of: DataType) -> Arc<Field> {
    Arc::new(Field::new("element", of, false))
}

/// A member of a sorted set and its score.
pub(crate) fn scored_fields() -> Fields {
    Fields::from(vec![
        Field::new("member", DataType::Binary, false),
        Field::new("score", DataType::Float64, false),
    ])
}

/// A field of a hash and its value, under the names that Parquet's specification gives them.
pub(crate) fn pair_fields() -> Fields {
    Fields::from(vec![
        Field::new("key", DataType::Binary, false),
        Field::new("value", DataType::Binary, false),
    ])
}

/// An entry of the map of a hash's fields.
pub(crate) fn pair() -> Arc<Field> {
    Arc::new(Field::new("key_value", DataType::Struct(pair_fields()), false))
}
