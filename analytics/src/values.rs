//! The values of the rows of a batch, column by column, while the batch grows.

use std::sync::Arc;

use arrow_array::builder::BinaryBuilder;
use arrow_array::{ArrayRef, Float64Array, ListArray, MapArray, StructArray};
use arrow_buffer::{OffsetBuffer, ScalarBuffer};
use arrow_schema::{ArrowError, DataType};
use rdb::Kind;

use crate::schema::{element, pair, pair_fields, scored_fields};

/// What an element takes next to its bytes: offsets, a score, levels while it is encoded.
const ELEMENT_BYTES: usize = 24;

/// One piece of a value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Element<'a> {
    /// A string, or a part of one.
    String(&'a [u8]),
    /// An item of a list or a member of a set.
    Item(&'a [u8]),
    /// A member of a sorted set and its score.
    Scored(&'a [u8], f64),
    /// A field of a hash and its value.
    Field(&'a [u8], &'a [u8]),
}

impl Element<'_> {
    /// Returns what the element adds to a batch.
    pub(crate) fn bytes(&self) -> usize {
        ELEMENT_BYTES
            + match self {
                Self::String(bytes) | Self::Item(bytes) | Self::Scored(bytes, _) => bytes.len(),
                Self::Field(name, value) => name.len() + value.len(),
            }
    }
}

/// Where the elements of each row end, from 0 on.
struct Ends(Vec<i32>);

impl Ends {
    fn new() -> Self {
        Self(vec![0])
    }

    fn end_row(&mut self, elements: usize) {
        self.0.push(i32::try_from(elements).expect("a batch has fewer bytes"));
    }

    fn take(&mut self) -> OffsetBuffer<i32> {
        OffsetBuffer::new(ScalarBuffer::from(std::mem::replace(&mut self.0, vec![0])))
    }
}

/// A field of hashes that has a column.
struct NamedColumn {
    name: Vec<u8>,
    values: BinaryBuilder,
    /// Whether the row in progress has it.
    is_in_row: bool,
    /// Whether the key in progress has it.
    is_in_key: bool,
}

/// The fields of hashes.
struct Hashes {
    columns: Vec<NamedColumn>,
    ends: Ends,
    names: BinaryBuilder,
    values: BinaryBuilder,
}

/// What comes of a field that has a column and stands twice in a key.
#[derive(Debug)]
pub(crate) struct Twice;

/// See the file's top.
pub(crate) struct Values(Form);

enum Form {
    Strings(BinaryBuilder),
    Items { ends: Ends, items: BinaryBuilder },
    Scored { ends: Ends, members: BinaryBuilder, scores: Vec<f64> },
    Hashes(Hashes),
}

impl Values {
    /// Begins a batch for a type; `fields` have columns of their own.
    pub(crate) fn new(kind: Kind, fields: &[String]) -> Self {
        let column = |name: &String| NamedColumn {
            name: name.clone().into_bytes(),
            values: BinaryBuilder::new(),
            is_in_row: false,
            is_in_key: false,
        };
        Self(match kind {
            Kind::String => Form::Strings(BinaryBuilder::new()),
            Kind::List | Kind::Set => {
                Form::Items { ends: Ends::new(), items: BinaryBuilder::new() }
            }
            Kind::ZSet => Form::Scored {
                ends: Ends::new(),
                members: BinaryBuilder::new(),
                scores: Vec::new(),
            },
            Kind::Hash => Form::Hashes(Hashes {
                columns: fields.iter().map(column).collect(),
                ends: Ends::new(),
                names: BinaryBuilder::new(),
                values: BinaryBuilder::new(),
            }),
            Kind::Stream => unreachable!("streams are not exported"),
        })
    }

    /// Begins the value of another key.
    pub(crate) fn begin_key(&mut self) {
        if let Form::Hashes(hashes) = &mut self.0 {
            hashes.columns.iter_mut().for_each(|column| column.is_in_key = false);
        }
    }

    /// Appends to the row in progress.
    pub(crate) fn push(&mut self, element: Element<'_>) -> Result<(), Twice> {
        match (&mut self.0, element) {
            (Form::Strings(values), Element::String(value)) => values.append_value(value),
            (Form::Items { items, .. }, Element::Item(item)) => items.append_value(item),
            (Form::Scored { members, scores, .. }, Element::Scored(member, score)) => {
                members.append_value(member);
                scores.push(score);
            }
            (Form::Hashes(hashes), Element::Field(name, value)) => hashes.push(name, value)?,
            _ => unreachable!("the elements of a key are of its type"),
        }
        Ok(())
    }

    /// Ends a row.
    pub(crate) fn end_row(&mut self) {
        match &mut self.0 {
            Form::Strings(_) => {}
            Form::Items { ends, items } => ends.end_row(items.offsets_slice().len() - 1),
            Form::Scored { ends, scores, .. } => ends.end_row(scores.len()),
            Form::Hashes(hashes) => hashes.end_row(),
        }
    }

    /// Returns the columns of the rows so far, and begins anew.
    pub(crate) fn take(&mut self) -> Result<Vec<ArrayRef>, ArrowError> {
        Ok(match &mut self.0 {
            Form::Strings(values) => vec![Arc::new(values.finish())],
            Form::Items { ends, items } => {
                let items = Arc::new(items.finish());
                vec![Arc::new(ListArray::try_new(
                    element(DataType::Binary),
                    ends.take(),
                    items,
                    None,
                )?)]
            }
            Form::Scored { ends, members, scores } => {
                let members = Arc::new(members.finish());
                let scores = Arc::new(Float64Array::from(std::mem::take(scores)));
                let scored = StructArray::try_new(scored_fields(), vec![members, scores], None)?;
                let field = element(DataType::Struct(scored_fields()));
                vec![Arc::new(ListArray::try_new(field, ends.take(), Arc::new(scored), None)?)]
            }
            Form::Hashes(hashes) => hashes.take()?,
        })
    }
}

impl Hashes {
    fn push(&mut self, name: &[u8], value: &[u8]) -> Result<(), Twice> {
        let Some(column) = self.columns.iter_mut().find(|column| column.name == name) else {
            self.names.append_value(name);
            self.values.append_value(value);
            return Ok(());
        };
        if column.is_in_key {
            return Err(Twice);
        }
        (column.is_in_key, column.is_in_row) = (true, true);
        column.values.append_value(value);
        Ok(())
    }

    fn end_row(&mut self) {
        for column in &mut self.columns {
            if !std::mem::take(&mut column.is_in_row) {
                column.values.append_null();
            }
        }
        self.ends.end_row(self.names.offsets_slice().len() - 1);
    }

    fn take(&mut self) -> Result<Vec<ArrayRef>, ArrowError> {
        let named =
            self.columns.iter_mut().map(|column| -> ArrayRef { Arc::new(column.values.finish()) });
        let mut columns: Vec<ArrayRef> = named.collect();
        let (names, values) = (Arc::new(self.names.finish()), Arc::new(self.values.finish()));
        let pairs = StructArray::try_new(pair_fields(), vec![names, values], None)?;
        columns.push(Arc::new(MapArray::try_new(pair(), self.ends.take(), pairs, None, false)?));
        Ok(columns)
    }
}
