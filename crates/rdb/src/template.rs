//! Templates: the names of the fields of many hashes, written once; from Redis 8.10 on.
//!
//! ```text
//!   template        number │ count │ name …
//!   before values   0 │ listpack of names,  or  1 │ count │ name …
//! ```
//!
//! The templates of a dump are held until its end, together no more bytes than one string may have, each no more
//! than a megabyte.
//! Source: Redis' pull request 15364 and its tests, librdb's 107.

use std::collections::HashMap;
use std::io::Read;
use std::sync::Arc;

use crate::error::Error;
use crate::input::Input;
use crate::packed::{Element, Packing, Walk};

/// The names of one template take no more: each hash that refers to it is read with all of them.
const TEMPLATE_BYTES_MAX: u64 = 1 << 20;

/// What a template takes besides its names, in bytes, about.
const OVERHEAD_BYTES: u64 = 128;

/// The names of fields, in the order of the values.
#[derive(Debug, Default)]
pub(crate) struct Template {
    text: Vec<u8>,
    /// Where each name ends in the text.
    ends: Vec<usize>,
}

impl Template {
    pub(crate) fn count(&self) -> u64 {
        self.ends.len() as u64
    }

    /// The name of the field of this number, which there is.
    pub(crate) fn name(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.text[start..self.ends[index]]
    }

    /// Memory that it takes, roughly.
    fn bytes(&self) -> u64 {
        OVERHEAD_BYTES + self.text.len() as u64 + 8 * self.count()
    }

    /// A count and that many names.
    fn read_plain<R: Read>(input: &mut Input<R>) -> Result<Self, Error> {
        let (mut template, count) = (Self::default(), input.length()?);
        if count == 0 {
            return Err(input.corrupt("a template of hashes has no names"));
        }
        for _ in 0..count {
            let name = input.string()?;
            template.push(input.bytes(name));
            template.check(input)?;
        }
        Ok(template)
    }

    /// The names that stand before the values of one hash.
    pub(crate) fn read_inline<R: Read>(input: &mut Input<R>) -> Result<Self, Error> {
        match input.length()? {
            0 => {
                let offset = input.offset();
                let blob = input.string()?;
                let template = Self::of_listpack(input.bytes(blob)).ok_or(Error::Corrupt {
                    offset,
                    what: "a listpack of names is damaged or empty",
                })?;
                template.check(input)?;
                Ok(template)
            }
            1 => Self::read_plain(input),
            _ => Err(input.corrupt("names of fields are in a form that there is not")),
        }
    }

    fn of_listpack(blob: &[u8]) -> Option<Self> {
        let mut template = Self::default();
        let mut walk = Walk::begin(Packing::Listpack, blob).ok()?;
        while let Some(element) = walk.next(blob).ok()? {
            if template.bytes() > TEMPLATE_BYTES_MAX {
                break;
            }
            match element {
                Element::Bytes { start, end } => template.push(&blob[start..end]),
                Element::Number(number) => {
                    template.push(itoa::Buffer::new().format(number).as_bytes());
                }
            }
        }
        (!template.ends.is_empty()).then_some(template)
    }

    fn push(&mut self, name: &[u8]) {
        self.text.extend_from_slice(name);
        self.ends.push(self.text.len());
    }

    /// Fails when it has more names than a template of a small hash may have.
    fn check<R: Read>(&self, input: &Input<R>) -> Result<(), Error> {
        if self.bytes() <= TEMPLATE_BYTES_MAX {
            return Ok(());
        }
        Err(input.corrupt("the names of a template of hashes take more than a megabyte"))
    }
}

/// The templates of a dump, by their numbers.
#[derive(Debug, Default)]
pub(crate) struct Templates {
    by_number: HashMap<u64, Arc<Template>>,
    bytes: u64,
}

impl Templates {
    /// Reads one more.
    pub(crate) fn read<R: Read>(&mut self, input: &mut Input<R>) -> Result<(), Error> {
        let number = input.length()?;
        let template = Template::read_plain(input)?;
        self.bytes += template.bytes();
        let (bytes, bytes_max) = (self.bytes, input.string_bytes_max());
        if bytes > bytes_max {
            return Err(Error::TooLong { offset: input.offset(), bytes, bytes_max });
        }
        match self.by_number.insert(number, Arc::new(template)) {
            None => Ok(()),
            Some(_) => Err(input.corrupt("two templates of hashes have the same number")),
        }
    }

    pub(crate) fn get(&self, number: u64) -> Option<Arc<Template>> {
        self.by_number.get(&number).cloned()
    }
}
