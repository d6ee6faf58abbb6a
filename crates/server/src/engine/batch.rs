//! The next requests of a client, parsed whole before the first of them is executed.
//!
//! ```text
//!   input   │ request │ request │ … │ request │ incomplete, wrong, a line of words, or one too many
//!               └── its arguments, its command, the hashes of its first keys
//! ```
//!
//! So what looking up the keys will read can be brought into the processor's cache for all of them
//! at once, and their misses overlap. Arguments are slices of the input: nothing is copied. A line
//! of words ("inline") lies in the parser and ends a batch.

use std::ops::Range;

use command::names::Names;
use command::spec::{BeginSearch, FindKeys, KeySpec};
use command::table::Command;
use keyspace::KeyHasher;
use resp::{Limits, Parsed, Parser, ProtocolError};

/// How many requests a batch has, at most.
pub(super) const REQUESTS_MAX: usize = 16;

/// How many keys of a request that counts its keys are looked for ahead.
const COUNTED_KEYS_MAX: usize = 4;

/// How many keys of a batch are.
pub(super) const KEYS_MAX: usize = REQUESTS_MAX * COUNTED_KEYS_MAX;

/// A batch with this many arguments is full.
const ARGS_MAX: usize = 1024;

/// How many arguments the memory is kept for.
const KEPT_ARGS_MAX: usize = 4096;

/// How long a key may be to be looked for ahead: its hash is not worth more.
const HASHED_KEY_BYTES_MAX: usize = 128;

/// One request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Where its arguments are among all.
    first_arg: usize,
    end_arg: usize,
    /// How many bytes of the input it has.
    pub(super) len: usize,
    /// What its name means; `None` for a name that means nothing.
    pub(super) command: Option<Command>,
}

/// Why a batch has no further request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// There may be more in the input.
    Full,
    /// The rest of the input is not a whole request.
    Incomplete,
    /// A line of words of this many bytes is next; the parser has it.
    Inline(usize),
    /// What is next is no request.
    Wrong(ProtocolError),
}

/// See the file's top.
#[derive(Debug, Default)]
pub(super) struct Batch<'a> {
    args: Vec<&'a [u8]>,
    requests: Vec<Request>,
}

impl<'a> Batch<'a> {
    /// An empty batch in the memory of another one.
    pub(super) fn recycle(other: Batch<'_>) -> Self {
        let Batch { args, mut requests } = other;
        requests.clear();
        let mut args = recycle(args);
        args.shrink_to(KEPT_ARGS_MAX);
        Self { args, requests }
    }

    /// Takes the place of what is in it: at most `requests_max` requests at the start of `input`.
    pub(super) fn fill(
        &mut self,
        parser: &mut Parser,
        input: &'a [u8],
        limits: &Limits,
        names: &Names,
        requests_max: usize,
    ) -> End {
        self.args.clear();
        self.requests.clear();
        let mut at = 0;
        while self.requests.len() < requests_max && self.args.len() < ARGS_MAX {
            if at == input.len() {
                return End::Incomplete;
            }
            let len = match parser.parse(&input[at..], limits) {
                Ok(Parsed::Incomplete { .. }) => return End::Incomplete,
                Ok(Parsed::Request { len }) => len,
                Err(error) => return End::Wrong(error),
            };
            let first_arg = self.args.len();
            let Some(args) = parser.bulk_args(&input[at..]) else { return End::Inline(len) };
            self.args.extend(args);
            // An unknown name is told when its turn comes.
            let command = names.resolve(&self.args[first_arg..]).ok();
            let end_arg = self.args.len();
            self.requests.push(Request { first_arg, end_arg, len, command });
            at += len;
        }
        End::Full
    }

    /// How many requests there are.
    pub(super) fn len(&self) -> usize {
        self.requests.len()
    }

    /// A request and its arguments.
    pub(super) fn request(&self, index: usize) -> (Request, &[&'a [u8]]) {
        let request = self.requests[index];
        (request, &self.args[request.first_arg..request.end_arg])
    }

    /// The hashes of the first keys of the requests.
    pub(super) fn key_hashes(&self, hasher: KeyHasher) -> impl Iterator<Item = u64> {
        self.requests.iter().flat_map(move |request| {
            let args = &self.args[request.first_arg..request.end_arg];
            let keys = request.command.map_or(0..0, |command| first_keys(command, args));
            let keys = args.get(keys).unwrap_or_default().iter();
            let keys = keys.filter(|key| key.len() <= HASHED_KEY_BYTES_MAX);
            keys.map(move |key| hasher.hash(key))
        })
    }
}

/// Where the first keys of a command are, as far as its arguments make sense: one, or some of those that it counts, as
/// EVAL does.
fn first_keys(command: Command, args: &[&[u8]]) -> Range<usize> {
    let Some(KeySpec { begin: BeginSearch::Index(begin), find, .. }) = command.keys.first() else {
        return 0..0;
    };
    let begin = usize::try_from(*begin).unwrap_or(usize::MAX);
    let FindKeys::KeyNum { count_index: 0, first_key: 1, step: 1 } = find else {
        return begin..begin.saturating_add(1);
    };
    match args.get(begin) {
        Some([digit @ b'1'..=b'9']) => {
            begin + 1..begin + 1 + usize::from(digit - b'0').min(COUNTED_KEYS_MAX)
        }
        _ => 0..0,
    }
}

/// Empties a vector and gives its memory to other borrows: collecting in place allocates nothing.
pub(super) fn recycle<'b>(mut args: Vec<&[u8]>) -> Vec<&'b [u8]> {
    args.clear();
    args.into_iter().map(|_| -> &'b [u8] { &[] }).collect()
}
