//! Values, element by element, whatever their form.
//!
//! ```text
//!   begin: what stands before the first element, and a blob that is one value, verified as a whole
//!   next:  the next element; its texts lie where they were read, until the one after it
//! ```
//!
//! What is held at a time: a string or blob, packed and unpacked, what was set aside for it, and templates.

mod stream;

use std::io::Read;
use std::sync::Arc;

use crate::error::{Damage, Error};
use crate::event::Kind;
use crate::form::{FieldTimes, Form, Names, Score, Shape, Values};
use crate::input::{Input, Text, clear};
use crate::packed::{self, Packing, Walk};
use crate::stream::{EntriesRead, EntryId, PendingEntry, StreamNumbers};
use crate::strings::field_time;
use crate::template::{Template, Templates};
use stream::{ConsumerHead, GroupHead, Part, StreamReader};

/// What an element is; its texts are [`ValueReader::first`] and [`ValueReader::second`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Element {
    String,
    Item,
    Member,
    Scored(f64),
    /// When it expires.
    Field(Option<i64>),
    /// Of a stream, as events have it.
    Entry(EntryId),
    Pair,
    Numbers(StreamNumbers),
    Group(EntryId, EntriesRead),
    Pending(PendingEntry),
    Consumer(i64, Option<i64>),
    Held(EntryId),
}

/// What a value turned out to be at its beginning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// Its elements are next: so many, if that is known.
    Value { count: Option<u64> },
    /// A collection without elements; all of it was read.
    Empty,
}

impl Begun {
    const fn counted(count: u64) -> Self {
        match count {
            0 => Self::Empty,
            count => Self::Value { count: Some(count) },
        }
    }
}

/// What is left of a value.
#[derive(Debug)]
enum State {
    Done,
    String,
    Strings {
        left: u64,
        element: Element,
    },
    Scored {
        left: u64,
        score: Score,
    },
    Fields {
        left: u64,
        times: FieldTimes,
        base_ms: i64,
    },
    Packed {
        blob: Blob,
        shape: Shape,
    },
    /// The node that was read, and those behind it.
    Nodes {
        left: u64,
        packing: Packing,
        node: Option<Node>,
    },
    /// The values of a template's fields: as strings, or in a blob.
    Template {
        template: Arc<Template>,
        index: usize,
        blob: Option<Blob>,
    },
    Stream(Box<StreamReader>),
}

/// A blob that is being walked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Blob {
    pub(crate) text: Text,
    pub(crate) walk: Walk,
    /// Where in the dump it is.
    pub(crate) offset: u64,
}

impl Blob {
    pub(crate) fn read<R: Read>(input: &mut Input<R>, packing: Packing) -> Result<Self, Error> {
        let offset = input.offset();
        let text = input.string()?;
        let walk = Walk::begin(packing, input.bytes(text))
            .map_err(|Damage(what)| Error::Corrupt { offset, what })?;
        Ok(Self { text, walk, offset })
    }

    pub(crate) fn next<R: Read>(
        &mut self,
        input: &Input<R>,
    ) -> Result<Option<packed::Element>, Error> {
        self.walk.next(input.bytes(self.text)).map_err(|Damage(what)| self.corrupt(what))
    }

    /// The next element of one that is known to have it.
    pub(crate) fn expect<R: Read>(&mut self, input: &Input<R>) -> Result<packed::Element, Error> {
        let next = self.next(input)?;
        next.ok_or_else(|| self.corrupt("a packed value ends in the middle of an element"))
    }

    pub(crate) fn count<R: Read>(&self, input: &Input<R>) -> Result<u64, Error> {
        self.walk.count(input.bytes(self.text)).map_err(|Damage(what)| self.corrupt(what))
    }

    pub(crate) fn corrupt(&self, what: &'static str) -> Error {
        Error::Corrupt { offset: self.offset, what }
    }
}

/// A node of a list.
#[derive(Clone, Copy, Debug)]
enum Node {
    /// An item by itself.
    Item(Text),
    Packed(Blob),
}

impl Node {
    /// Reads the next one that has an item: `None` if there is none.
    fn read<R: Read>(
        input: &mut Input<R>,
        packing: Packing,
        left: &mut u64,
    ) -> Result<Option<Self>, Error> {
        const BY_ITSELF: u64 = 1;
        const PACKED: u64 = 2;
        while *left > 0 {
            *left -= 1;
            match if packing == Packing::Listpack { input.length()? } else { PACKED } {
                BY_ITSELF => return Ok(Some(Self::Item(input.string()?))),
                PACKED => {
                    let blob = Blob::read(input, packing)?;
                    // A copy: the node is walked from its first item.
                    if { blob }.next(input)?.is_some() {
                        return Ok(Some(Self::Packed(blob)));
                    }
                }
                _ => return Err(input.corrupt("a list has a node of a kind that there is not")),
            }
        }
        Ok(None)
    }
}

/// Where a text of an element lies.
#[derive(Clone, Copy, Debug)]
enum Place {
    Input(Text),
    /// Bytes of a blob.
    Blob {
        text: Text,
        start: usize,
        end: usize,
    },
    /// What was set aside while more was read, or an integer of a blob: as the first or second text.
    Aside(usize),
    /// The name of this number in the template.
    Template(usize),
}

/// See the file's top.
#[derive(Debug)]
pub(crate) struct ValueReader {
    state: State,
    templates: Templates,
    first: Place,
    second: Place,
    aside: [Vec<u8>; 2],
}

impl Default for ValueReader {
    fn default() -> Self {
        Self {
            state: State::Done,
            templates: Templates::default(),
            first: Place::Aside(0),
            second: Place::Aside(1),
            aside: [Vec::new(), Vec::new()],
        }
    }
}

impl ValueReader {
    /// Reads a template that later hashes are written with.
    pub(crate) fn read_template<R: Read>(&mut self, input: &mut Input<R>) -> Result<(), Error> {
        self.templates.read(input)
    }

    /// Begins a value of this form.
    pub(crate) fn begin<R: Read>(
        &mut self,
        input: &mut Input<R>,
        form: Form,
    ) -> Result<Begun, Error> {
        let (state, begun) = match form {
            Form::String => (State::String, Begun::Value { count: None }),
            Form::Strings(kind) => {
                let element = if kind == Kind::List { Element::Item } else { Element::Member };
                let left = input.length()?;
                (State::Strings { left, element }, Begun::counted(left))
            }
            Form::Scored(score) => {
                let left = input.length()?;
                (State::Scored { left, score }, Begun::counted(left))
            }
            Form::Fields(times) => {
                let base_ms = match times {
                    FieldTimes::BeforeFromBase => i64::from_le_bytes(input.array()?),
                    // The time itself, and what is written is one more than the time from here.
                    FieldTimes::Before => 1,
                    FieldTimes::None | FieldTimes::Behind => 0,
                };
                let left = input.length()?;
                (State::Fields { left, times, base_ms }, Begun::counted(left))
            }
            Form::Packed { packing, shape, behind_time } => {
                if behind_time {
                    input.skip(8)?;
                }
                let blob = Blob::read(input, packing)?;
                let count = whole(&blob, input, packing, shape)?;
                (State::Packed { blob, shape }, Begun::counted(count))
            }
            Form::Nodes(packing) => {
                let mut left = input.length()?;
                let node = Node::read(input, packing, &mut left)?;
                let begun = node.map_or(Begun::Empty, |_| Begun::Value { count: None });
                (State::Nodes { left, packing, node }, begun)
            }
            Form::Template { names, values } => {
                let (state, count) = self.begin_template(input, names, values)?;
                (state, Begun::counted(count))
            }
            // One without entries is a value all the same.
            Form::Stream(generation) => {
                let stream = StreamReader::begin(input, generation)?;
                (State::Stream(Box::new(stream)), Begun::Value { count: None })
            }
        };
        self.state = state;
        Ok(begun)
    }

    fn begin_template<R: Read>(
        &self,
        input: &mut Input<R>,
        names: Names,
        values: Values,
    ) -> Result<(State, u64), Error> {
        let inline = match names {
            Names::Inline => Some(Arc::new(Template::read_inline(input)?)),
            Names::Numbered => None,
        };
        let offset = input.offset();
        let corrupt = |what| Error::Corrupt { offset, what };
        let (number, blob) = match values {
            Values::Packed => {
                let mut blob = Blob::read(input, Packing::Listpack)?;
                let values = blob.count(input)?.checked_sub(1);
                let number = match blob.next(input)? {
                    Some(packed::Element::Number(number)) => u64::try_from(number).ok(),
                    _ => None,
                };
                let number = number.ok_or_else(|| corrupt("values begin with no number"))?;
                (number, values.map(|values| (blob, values)))
            }
            Values::Strings if inline.is_some() => (0, None),
            Values::Strings => (input.length()?, None),
        };
        let template = inline
            .or_else(|| self.templates.get(number))
            .ok_or_else(|| corrupt("a hash has a template that there is not"))?;
        let count = template.count();
        if blob.is_some_and(|(_, values)| values != count) {
            return Err(corrupt("a hash does not have a value for each name of its template"));
        }
        let blob = blob.map(|(blob, _)| blob);
        Ok((State::Template { template, index: 0, blob }, count))
    }

    /// Whether the value that was begun is a hash of a form whose fields may expire.
    pub(crate) const fn has_times(&self) -> bool {
        match &self.state {
            State::Fields { times, .. } => !matches!(times, FieldTimes::None),
            State::Packed { shape, .. } => matches!(shape, Shape::TimedFields),
            _ => false,
        }
    }

    /// The next element; `None` when the value is complete.
    pub(crate) fn next<R: Read>(&mut self, input: &mut Input<R>) -> Result<Option<Element>, Error> {
        match &mut self.state {
            State::Done => Ok(None),
            State::String => {
                self.state = State::Done;
                self.first = Place::Input(input.string()?);
                Ok(Some(Element::String))
            }
            State::Strings { left: 0, .. }
            | State::Scored { left: 0, .. }
            | State::Fields { left: 0, .. } => Ok(None),
            State::Strings { left, element } => {
                *left -= 1;
                self.first = Place::Input(input.string()?);
                Ok(Some(*element))
            }
            State::Scored { left, score } => {
                *left -= 1;
                let score = *score;
                self.scored(input, score).map(Some)
            }
            State::Fields { left, times, base_ms } => {
                *left -= 1;
                let (times, base_ms) = (*times, *base_ms);
                self.field(input, times, base_ms).map(Some)
            }
            State::Packed { .. } => self.packed(input),
            State::Nodes { .. } => self.item_of_nodes(input),
            State::Template { .. } => self.field_of_template(input),
            State::Stream(stream) => {
                let part = stream.next(input, &mut self.aside[0])?;
                Ok(self.part_of_stream(part))
            }
        }
    }

    fn part_of_stream(&mut self, part: Part) -> Option<Element> {
        self.first = Place::Aside(0);
        Some(match part {
            Part::Entry(id) => Element::Entry(id),
            Part::Pair(blob, name, value) => {
                self.first = self.place(blob.text, 0, name);
                self.second = self.place(blob.text, 1, value);
                Element::Pair
            }
            Part::Numbers(numbers) => Element::Numbers(numbers),
            Part::Group(GroupHead { last_id, entries_read }) => {
                Element::Group(last_id, entries_read)
            }
            Part::Pending(pending) => Element::Pending(pending),
            Part::Consumer(ConsumerHead { seen_ms, active_ms }) => {
                Element::Consumer(seen_ms, active_ms)
            }
            Part::Held(id) => Element::Held(id),
            Part::End => return None,
        })
    }

    /// The first text of the last element: a string, item, member, or the name of a field.
    pub(crate) fn first<'a, R: Read>(&'a self, input: &'a Input<R>) -> &'a [u8] {
        self.text(input, self.first)
    }

    /// The second text of the last element: the value of a field.
    pub(crate) fn second<'a, R: Read>(&'a self, input: &'a Input<R>) -> &'a [u8] {
        self.text(input, self.second)
    }

    fn text<'a, R: Read>(&'a self, input: &'a Input<R>, place: Place) -> &'a [u8] {
        match place {
            Place::Input(text) => input.bytes(text),
            Place::Blob { text, start, end } => &input.bytes(text)[start..end],
            Place::Aside(which) => &self.aside[which],
            Place::Template(index) => match &self.state {
                State::Template { template, .. } => template.name(index),
                _ => &[],
            },
        }
    }

    fn scored<R: Read>(&mut self, input: &mut Input<R>, score: Score) -> Result<Element, Error> {
        const NAN: u8 = 253;
        const INFINITE: u8 = 254;
        const NEGATIVE_INFINITE: u8 = 255;
        let member = input.string()?;
        self.first = self.set_aside(input, member, 0);
        let score = match score {
            Score::Binary => Some(f64::from_le_bytes(input.array()?)),
            Score::Text => match input.byte()? {
                NAN => None,
                INFINITE => Some(f64::INFINITY),
                NEGATIVE_INFINITE => Some(f64::NEG_INFINITY),
                bytes => input.text_number(bytes)?,
            },
        };
        number(score, || input.corrupt(NO_SCORE)).map(Element::Scored)
    }

    fn field<R: Read>(
        &mut self,
        input: &mut Input<R>,
        times: FieldTimes,
        base_ms: i64,
    ) -> Result<Element, Error> {
        let before = match times {
            FieldTimes::None | FieldTimes::Behind => 0,
            FieldTimes::Before | FieldTimes::BeforeFromBase => input.length()?,
        };
        let name = input.string()?;
        self.first = self.set_aside(input, name, 0);
        let value = input.string()?;
        let at_ms = if times == FieldTimes::Behind {
            self.second = self.set_aside(input, value, 1);
            Some(i64::from_le_bytes(input.array()?)).filter(|at_ms| *at_ms != -1)
        } else {
            self.second = Place::Input(value);
            let at_ms = |time| i64::try_from(time).ok()?.checked_add(base_ms);
            // A time that there is not is refused as one before 1970.
            before.checked_sub(1).map(|time: u64| at_ms(time).unwrap_or(-1))
        };
        match at_ms {
            Some(..0) => Err(input.corrupt(NO_TIME)),
            at_ms => Ok(Element::Field(at_ms.map(field_time))),
        }
    }

    /// Keeps a text, as what is read next may take its place; it is the first or second of its element.
    fn set_aside<R: Read>(&mut self, input: &Input<R>, text: Text, which: usize) -> Place {
        clear(&mut self.aside[which]);
        self.aside[which].extend_from_slice(input.bytes(text));
        Place::Aside(which)
    }

    fn packed<R: Read>(&mut self, input: &Input<R>) -> Result<Option<Element>, Error> {
        let State::Packed { blob, shape } = &mut self.state else { return Ok(None) };
        let (shape, text) = (*shape, blob.text);
        let Some(first) = blob.next(input)? else { return Ok(None) };
        let second = match shape {
            Shape::Items | Shape::Members => None,
            Shape::Scored | Shape::Fields | Shape::TimedFields => Some(blob.expect(input)?),
        };
        let third = match shape {
            Shape::TimedFields => Some(blob.expect(input)?),
            _ => None,
        };
        let blob = *blob;
        self.first = self.place(text, 0, first);
        let element = match (shape, second) {
            (Shape::Items, _) => Element::Item,
            (Shape::Members, _) | (_, None) => Element::Member,
            (Shape::Scored, Some(score)) => {
                let score = score_of(input.bytes(text), score);
                number(score, || blob.corrupt(NO_SCORE)).map(Element::Scored)?
            }
            (_, Some(value)) => {
                self.second = self.place(text, 1, value);
                match third {
                    None | Some(packed::Element::Number(0)) => Element::Field(None),
                    Some(packed::Element::Number(at_ms @ 1..)) => {
                        Element::Field(Some(field_time(at_ms)))
                    }
                    Some(_) => return Err(blob.corrupt(NO_TIME)),
                }
            }
        };
        Ok(Some(element))
    }

    fn item_of_nodes<R: Read>(&mut self, input: &mut Input<R>) -> Result<Option<Element>, Error> {
        let State::Nodes { left, packing, node } = &mut self.state else { return Ok(None) };
        loop {
            match node {
                Some(Node::Item(text)) => {
                    self.first = Place::Input(*text);
                    *node = None;
                    return Ok(Some(Element::Item));
                }
                Some(Node::Packed(blob)) => {
                    if let Some(item) = blob.next(input)? {
                        let text = blob.text;
                        self.first = self.place(text, 0, item);
                        return Ok(Some(Element::Item));
                    }
                    *node = None;
                }
                None => {
                    *node = Node::read(input, *packing, left)?;
                    if node.is_none() {
                        return Ok(None);
                    }
                }
            }
        }
    }

    fn field_of_template<R: Read>(
        &mut self,
        input: &mut Input<R>,
    ) -> Result<Option<Element>, Error> {
        let State::Template { template, index, blob } = &mut self.state else { return Ok(None) };
        if *index as u64 == template.count() {
            return Ok(None);
        }
        self.first = Place::Template(*index);
        *index += 1;
        self.second = match blob {
            None => Place::Input(input.string()?),
            Some(blob) => {
                let (value, text) = (blob.expect(input)?, blob.text);
                self.place(text, 1, value)
            }
        };
        Ok(Some(Element::Field(None)))
    }

    /// Where an element of a blob lies; an integer is written down, as the first or second text.
    fn place(&mut self, text: Text, which: usize, element: packed::Element) -> Place {
        match element {
            packed::Element::Bytes { start, end } => Place::Blob { text, start, end },
            packed::Element::Number(number) => {
                let aside = &mut self.aside[which];
                aside.clear();
                aside.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
                Place::Aside(which)
            }
        }
    }
}

const NO_SCORE: &str = "a score is no number";
const NO_TIME: &str = "a field expires at no time that there is";

/// Walks over a blob that is a value; how many elements the value has.
fn whole<R: Read>(
    blob: &Blob,
    input: &Input<R>,
    packing: Packing,
    shape: Shape,
) -> Result<u64, Error> {
    let count = blob.count(input)?;
    // Redis takes these two for damaged when they are empty, and not the others.
    if count == 0 && matches!(packing, Packing::Intset | Packing::Zipmap) {
        return Err(blob.corrupt("a collection is empty"));
    }
    match (count / shape.width(), count % shape.width()) {
        (elements, 0) => Ok(elements),
        _ => Err(blob.corrupt("a packed value ends in the middle of an element")),
    }
}

fn number(score: Option<f64>, error: impl FnOnce() -> Error) -> Result<f64, Error> {
    score.filter(|score| !score.is_nan()).ok_or_else(error)
}

/// The score that an element of a blob is.
fn score_of(blob: &[u8], element: packed::Element) -> Option<f64> {
    match element {
        packed::Element::Bytes { start, end } => {
            std::str::from_utf8(&blob[start..end]).ok()?.parse().ok()
        }
        #[expect(clippy::cast_precision_loss, reason = "as Redis takes integers for scores")]
        packed::Element::Number(number) => Some(number as f64),
    }
}
