//! The options of XADD, XTRIM, XDELEX and XACKDEL.

use keyspace::Settings;
use keyspace::stream::{Keep, References, StreamId, Trim};

use super::id::{self, Given};
use crate::argument::{self, is};
use crate::error::CommandError;

const NO_STRATEGY: CommandError =
    CommandError::other("ERR syntax error, XTRIM must be called with a trimming strategy");
const LIMIT_OF_ALL: CommandError =
    CommandError::other("ERR syntax error, LIMIT cannot be used without the special ~ option");

/// Which id XADD gives an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AddId {
    /// `*`
    Any,
    /// `ms-*`
    Milliseconds(u64),
    Whole(StreamId),
}

impl AddId {
    /// The id of an entry that comes after `last_id`, if there is one.
    pub(super) fn after(self, last_id: StreamId, now_ms: i64) -> Option<StreamId> {
        let now_ms = u64::try_from(now_ms).unwrap_or(0);
        match self {
            Self::Any if now_ms > last_id.ms => Some(StreamId::new(now_ms, 0)),
            Self::Any => last_id.next(),
            Self::Milliseconds(ms) if ms == last_id.ms => {
                last_id.seq.checked_add(1).map(|seq| StreamId::new(ms, seq))
            }
            Self::Milliseconds(ms) => Some(StreamId::new(ms, 0)),
            Self::Whole(id) => Some(id),
        }
    }
}

/// What becomes of what groups know of an entry that goes, if the word says that.
fn references(word: &[u8]) -> Option<References> {
    if is(word, "KEEPREF") {
        Some(References::Keep)
    } else if is(word, "DELREF") {
        Some(References::Delete)
    } else if is(word, "ACKED") {
        Some(References::Acknowledged)
    } else {
        None
    }
}

/// What XDELEX and XACKDEL say behind the key and the group.
pub(super) struct RemoveOptions<'a, 'b> {
    pub(super) references: References,
    /// Not read yet: where there is no stream they may be anything.
    pub(super) ids: &'a [&'b [u8]],
}

impl<'a, 'b> RemoveOptions<'a, 'b> {
    pub(super) fn parse(mut words: &'a [&'b [u8]]) -> Result<Self, CommandError> {
        let (mut given, mut ids) = (None, None);
        while let [word, rest @ ..] = words {
            words = match (references(word), rest) {
                (Some(references), rest) if given.is_none() => {
                    given = Some(references);
                    rest
                }
                (None, [count, rest @ ..]) if is(word, "IDS") => {
                    let listed = ids_of(count, rest)?;
                    ids = Some(listed);
                    &rest[listed.len()..]
                }
                _ => return Err(CommandError::Syntax),
            };
        }
        let ids = ids.ok_or(CommandError::Syntax)?;
        Ok(Self { references: given.unwrap_or_default(), ids })
    }
}

/// The ids behind their number.
fn ids_of<'a, 'b>(count: &[u8], rest: &'a [&'b [u8]]) -> Result<&'a [&'b [u8]], CommandError> {
    let count = argument::int(count).ok().filter(|count| *count > 0);
    let count = count.ok_or(CommandError::other("ERR Number of IDs must be a positive integer"))?;
    usize::try_from(count)
        .ok()
        .and_then(|count| rest.get(..count))
        .ok_or(CommandError::other("ERR The `numids` parameter must match the number of arguments"))
}

/// How a producer calls what it adds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Message<'a> {
    pub(super) producer: &'a [u8],
    /// `None`: by its fields and values.
    pub(super) name: Option<&'a [u8]>,
}

impl<'b> Message<'b> {
    /// Takes it from the front of `words`, and returns what follows; `None` if there is none.
    fn take<'a>(
        given: &mut Option<Self>,
        words: &'a [&'b [u8]],
    ) -> Result<Option<&'a [&'b [u8]]>, CommandError> {
        let (message, rest) = match words {
            [word, producer, name, rest @ ..] if is(word, "IDMP") => {
                (Self { producer, name: Some(name) }, rest)
            }
            [word, producer, rest @ ..] if is(word, "IDMPAUTO") => {
                (Self { producer, name: None }, rest)
            }
            _ => return Ok(None),
        };
        let error = match message {
            _ if given.is_some() => "ERR IDMP/IDMPAUTO specified multiple times",
            Self { producer: [], name: Some(_) } => "ERR IDMP requires a non-empty producer ID",
            Self { producer: [], name: None } => "ERR IDMPAUTO requires a non-empty producer ID",
            Self { name: Some([]), .. } => "ERR IDMP requires a non-empty idempotent ID",
            message => {
                *given = Some(message);
                return Ok(Some(rest));
            }
        };
        Err(CommandError::other(error))
    }
}

pub(super) struct AddOptions<'b> {
    /// What a producer adds again is not added.
    pub(super) message: Option<Message<'b>>,
    pub(super) trim: Option<Trim>,
    pub(super) references: References,
    pub(super) no_mkstream: bool,
    pub(super) id: AddId,
}

impl<'b> AddOptions<'b> {
    /// The options in front of an entry, and its names and values.
    pub(super) fn parse<'a>(
        words: &'a [&'b [u8]],
        settings: &Settings,
    ) -> Result<(Self, &'a [&'b [u8]]), CommandError> {
        let (mut trim, mut no_mkstream) = (TrimWords::default(), false);
        let mut words = words;
        let (mut id, mut message) = (AddId::Any, None);
        while let [word, rest @ ..] = words {
            if *word == b"*" {
                words = rest;
                break;
            }
            if let Some(rest) = trim.take(words)? {
                words = rest;
            } else if let Some(rest) = Message::take(&mut message, words)? {
                words = rest;
            } else if is(word, "NOMKSTREAM") {
                (no_mkstream, words) = (true, rest);
            } else {
                id = match id::given(word, 0)? {
                    Given::Whole(id) => AddId::Whole(id),
                    Given::Milliseconds(ms) => AddId::Milliseconds(ms),
                };
                words = rest;
                break;
            }
        }
        if message.is_some() && id != AddId::Any {
            return Err(CommandError::other(
                "ERR IDMP/IDMPAUTO can be used only with auto-generated IDs",
            ));
        }
        let references = trim.references.unwrap_or_default();
        let trim = trim.finish(settings)?;
        Ok((Self { message, trim, references, no_mkstream, id }, words))
    }
}

/// The options of XTRIM.
pub(super) fn trim(
    words: &[&[u8]],
    settings: &Settings,
) -> Result<(Trim, References), CommandError> {
    let mut trim = TrimWords::default();
    let mut words = words;
    while !words.is_empty() {
        words = trim.take(words)?.ok_or(CommandError::Syntax)?;
    }
    if trim.keep.is_none() && trim.limit.is_none_or(|limit| limit == 0) {
        return Err(NO_STRATEGY);
    }
    let references = trim.references.unwrap_or_default();
    Ok((trim.finish(settings)?.ok_or(NO_STRATEGY)?, references))
}

/// How to trim, as far as it was read.
#[derive(Default)]
struct TrimWords {
    keep: Option<Keep>,
    is_about: bool,
    limit: Option<u64>,
    references: Option<References>,
}

impl TrimWords {
    /// Takes an option from the front of `words`, and returns what follows; `None` if there is none.
    fn take<'a, 'b>(
        &mut self,
        words: &'a [&'b [u8]],
    ) -> Result<Option<&'a [&'b [u8]]>, CommandError> {
        let [word, rest @ ..] = words else { return Ok(None) };
        if let (Some(references), None) = (references(word), self.references) {
            self.references = Some(references);
            return Ok(Some(rest));
        }
        if rest.is_empty() {
            return Ok(None);
        }
        if is(word, "LIMIT") {
            let limit = u64::try_from(argument::int(rest[0])?)
                .map_err(|_| CommandError::other("ERR The LIMIT argument must be >= 0."))?;
            self.limit = Some(limit);
            return Ok(Some(&rest[1..]));
        }
        let is_length = is(word, "MAXLEN");
        if !is_length && !is(word, "MINID") {
            return Ok(None);
        }
        if self.keep.is_some() {
            return Err(CommandError::other(
                "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
            ));
        }
        let (is_about, rest) = match rest {
            [b"~", rest @ ..] if !rest.is_empty() => (true, rest),
            [b"=", rest @ ..] if !rest.is_empty() => (false, rest),
            rest => (false, rest),
        };
        self.is_about = is_about;
        self.keep = Some(if is_length {
            let count = u64::try_from(argument::int(rest[0])?);
            Keep::Newest(
                count.map_err(|_| CommandError::other("ERR The MAXLEN argument must be >= 0."))?,
            )
        } else {
            Keep::From(id::strict(rest[0])?)
        });
        Ok(Some(&rest[1..]))
    }

    fn finish(self, settings: &Settings) -> Result<Option<Trim>, CommandError> {
        const ENTRIES_MAX: u64 = 1_000_000;
        let Some(keep) = self.keep else {
            return match self.limit {
                None => Ok(None),
                // Redis tells this from no limit only behind a strategy.
                Some(0) => Err(LIMIT_OF_ALL),
                Some(_) => Err(CommandError::other(
                    "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
                )),
            };
        };
        if !self.is_about {
            return match self.limit {
                Some(_) => Err(LIMIT_OF_ALL),
                None => Ok(Some(Trim { keep, about: None })),
            };
        }
        // A hundred nodes of Redis, so that no command takes long.
        let limit = self.limit.unwrap_or_else(|| match settings.stream_node_max_entries {
            0 => 10_000,
            entries => entries.saturating_mul(100).min(ENTRIES_MAX),
        });
        Ok(Some(Trim { keep, about: Some(limit) }))
    }
}
