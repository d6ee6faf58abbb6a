//! The data that a request touches, to decide which requests may be in flight together.
//!
//! Two requests of a RESP server commute if their keys differ. For SQL, the tables and rows are
//! unknown, but the log is a proof: if both were answered while both transactions were open,
//! neither needed a lock of the other. Two inserts never overlap, because they may draw numbers
//! from the same AUTO_INCREMENT. The end of a transaction, whose statements are all done by then,
//! may be sent concurrently with everything answered before it: a request that needs its locks
//! waits for it in any case. So the server makes several transactions durable at once.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

use command_spec::spec::{BeginSearch, Group};
use command_spec::table::{self, Command};
use resp::{Limits, Parsed, Parser};

use super::plan::Request;
use crate::entry::{Class, ConnectionNumber, Outcome, Position};
use crate::protocol::Protocol;
use crate::protocol::mysql::command::{Code, statement_id};
use crate::protocol::mysql::packet;
use crate::protocol::mysql::sql::{self, Kind};

/// The data that a request touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Footprint {
    /// Nothing visible to another connection.
    Nothing,
    /// Keys, by their hashes; the flag marks an EXEC.
    Keys(Vec<u64>, bool),
    /// Rows, through locks.
    Locks,
    /// Rows, and possibly sequence numbers.
    Inserts,
    /// Only the end of a transaction, which releases its locks.
    End,
    Everything,
}

impl Footprint {
    /// Whether `later` may be in flight together with this one, which was answered before it.
    pub(super) fn may_overlap(&self, later: &Self, held_locks_together: bool) -> bool {
        match (self, later) {
            (Self::Nothing, _) | (_, Self::Nothing) => true,
            (Self::Keys(keys, _), Self::Keys(others, _)) => {
                !keys.iter().any(|key| others.contains(key))
            }
            (Self::Inserts, Self::Inserts) => false,
            (Self::Locks | Self::Inserts | Self::End, Self::End) => true,
            (Self::Locks | Self::Inserts | Self::End, Self::Locks | Self::Inserts) => {
                held_locks_together
            }
            _ => false,
        }
    }

    pub(super) fn is_exec(&self) -> bool {
        matches!(self, Self::Keys(_, true))
    }
}

/// The effects of earlier requests of each connection on later ones.
#[derive(Debug)]
pub(super) struct Footprints {
    protocol: Protocol,
    connections: HashMap<ConnectionNumber, State>,
    /// Statements being prepared.
    preparing: HashMap<Position, ConnectionNumber>,
}

#[derive(Debug, Default)]
struct State {
    /// The keys of requests queued by MULTI; an inner `None` means all keys.
    multi: Option<Option<Vec<u64>>>,
    is_manual: bool,
    in_transaction: bool,
    /// Statements with unknown ids, by the requests that prepared them.
    unnamed: VecDeque<(Position, Vec<u8>)>,
    statements: HashMap<u32, Vec<u8>>,
}

impl Footprints {
    pub(super) fn new(protocol: Protocol) -> Self {
        Self { protocol, connections: HashMap::new(), preparing: HashMap::new() }
    }

    /// Determines what a request touches, and whether it ends its transaction (or is one itself).
    pub(super) fn request(
        &mut self,
        connection: ConnectionNumber,
        request: &Request,
    ) -> (Footprint, bool) {
        let state = self.connections.entry(connection).or_default();
        match self.protocol {
            Protocol::Resp => state.resp(&request.payload),
            Protocol::Mysql => {
                let touched = state.mysql(request);
                if state.unnamed.back().is_some_and(|(position, _)| *position == request.position) {
                    self.preparing.insert(request.position, connection);
                }
                touched
            }
            Protocol::Raw => (Footprint::Everything, true),
        }
    }

    /// Handles the answer to a request: a failed preparation gets no id.
    pub(super) fn answered(&mut self, position: Position, outcome: Outcome) {
        if let Some(connection) = self.preparing.remove(&position)
            && outcome == Outcome::Error
            && let Some(state) = self.connections.get_mut(&connection)
        {
            state.unnamed.retain(|(prepared_by, _)| *prepared_by != position);
        }
    }

    /// Determines what the end of a connection touches: the locks of its transaction.
    pub(super) fn close(&mut self, connection: ConnectionNumber) -> Footprint {
        self.connections.remove(&connection);
        match self.protocol {
            Protocol::Mysql => Footprint::End,
            Protocol::Resp | Protocol::Raw => Footprint::Nothing,
        }
    }
}

/// The arguments of a RESP request.
pub(super) fn arguments(payload: &[u8]) -> Vec<Vec<u8>> {
    let mut parser = Parser::new();
    let limits = Limits { bulk_bytes_max: 1 << 40, authenticated: true };
    match parser.parse(payload, &limits) {
        Ok(Parsed::Request { .. }) => parser.args(payload).map(<[u8]>::to_vec).collect(),
        _ => Vec::new(),
    }
}

impl State {
    fn resp(&mut self, payload: &[u8]) -> (Footprint, bool) {
        let arguments = arguments(payload);
        let words: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        let Some(command) = table::find_call(&words) else {
            if let Some(queued) = &mut self.multi {
                *queued = None;
            }
            return (Footprint::Everything, self.multi.is_none());
        };
        match command.name {
            "multi" => {
                self.multi = Some(Some(Vec::new()));
                (Footprint::Nothing, false)
            }
            "exec" => match self.multi.take().flatten() {
                Some(keys) => (Footprint::Keys(keys, true), true),
                None => (Footprint::Everything, true),
            },
            "discard" | "reset" => {
                self.multi = None;
                (Footprint::Nothing, true)
            }
            "select" | "auth" | "hello" | "unwatch" => (Footprint::Nothing, self.multi.is_none()),
            name if name.starts_with("client") => (Footprint::Nothing, self.multi.is_none()),
            _ => {
                let keys = keys(command, &words);
                let Some(queued) = &mut self.multi else {
                    let touched =
                        keys.map_or(Footprint::Everything, |keys| Footprint::Keys(keys, false));
                    return (touched, true);
                };
                match (queued.as_mut(), keys) {
                    (Some(queued), Some(keys)) => queued.extend(keys),
                    _ => *queued = None,
                }
                (Footprint::Nothing, false)
            }
        }
    }

    fn mysql(&mut self, request: &Request) -> (Footprint, bool) {
        let raw = &request.payload;
        let payload = packet::payload(raw);
        let Some(first) = payload.first() else { return (Footprint::Nothing, false) };
        // A login has number 1; all commands have number 0.
        if raw.get(3) != Some(&0) {
            return (Footprint::Nothing, false);
        }
        match Code::of(*first) {
            Code::Query => self.query(&payload[1..]),
            Code::Prepare => {
                self.unnamed.push_back((request.position, payload[1..].to_vec()));
                (Footprint::Nothing, false)
            }
            Code::Execute if request.class == Class::Connection => {
                // Notes the id of the oldest statement without one, or the types of a known one.
                if let Some(id) = statement_id(&payload)
                    && !self.statements.contains_key(&id)
                    && let Some((_, text)) = self.unnamed.pop_front()
                {
                    self.statements.insert(id, text);
                }
                (Footprint::Nothing, false)
            }
            Code::Close => {
                statement_id(&payload).map(|id| self.statements.remove(&id));
                (Footprint::Nothing, false)
            }
            Code::Execute | Code::BulkExecute => {
                let text = statement_id(&payload).and_then(|id| self.statements.get(&id).cloned());
                match text {
                    Some(text) => self.query(&text),
                    None => (Footprint::Inserts, !self.is_manual && !self.in_transaction),
                }
            }
            Code::ChangeUser | Code::ResetConnection => {
                let had_transaction = self.in_transaction;
                *self = Self::default();
                (Footprint::Locks, had_transaction)
            }
            Code::CreateDb | Code::DropDb => {
                self.in_transaction = false;
                (Footprint::Everything, true)
            }
            _ => (Footprint::Nothing, false),
        }
    }

    fn query(&mut self, sql: &[u8]) -> (Footprint, bool) {
        let statements = sql::statements(sql);
        let (mut footprint, mut ends) = (Footprint::Nothing, false);
        for statement in &statements {
            let (touched, is_end) = self.statement(statement);
            if footprint == Footprint::Nothing {
                footprint = touched;
            } else if touched != Footprint::Nothing {
                footprint = Footprint::Everything;
            }
            ends |= is_end;
        }
        (footprint, ends && !self.in_transaction)
    }

    fn statement(&mut self, statement: &[u8]) -> (Footprint, bool) {
        let is_alone = !self.in_transaction && !self.is_manual;
        match sql::kind(statement) {
            Kind::Reads | Kind::Administers => (Footprint::Nothing, is_alone),
            Kind::Sets(_) => (Footprint::Nothing, false),
            Kind::Begin => {
                self.in_transaction = true;
                (Footprint::Nothing, false)
            }
            Kind::Commit | Kind::Rollback => {
                self.in_transaction = false;
                (Footprint::End, true)
            }
            Kind::SetsAutocommit(on) => {
                self.is_manual = !on;
                self.in_transaction &= !on;
                (Footprint::Locks, on)
            }
            Kind::WritesAlone => {
                self.in_transaction = false;
                (Footprint::Everything, true)
            }
            Kind::Writes | Kind::LoadsLocal => {
                self.in_transaction |= self.is_manual;
                let is_update = ["update", "delete", "select"]
                    .iter()
                    .any(|word| sql::begins_with(statement, word));
                let footprint = if is_update { Footprint::Locks } else { Footprint::Inserts };
                (footprint, is_alone)
            }
        }
    }
}

/// Returns the hashes of a call's keys; `None` if it may touch other keys, or everything.
fn keys(command: Command, words: &[&[u8]]) -> Option<Vec<u64>> {
    // A script may touch keys that its call does not name, and needs the script loaded by another
    // call.
    let names_all = command.group != Group::Scripting
        && command.keys.iter().all(|key| key.begin != BeginSearch::Unknown);
    let found = command_spec::keys::of(command.spec(), words)?;
    (names_all && !found.is_empty())
        .then(|| found.iter().map(|key| hash(words[key.index])).collect())
}

fn hash(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Time;
    use crate::protocol::mysql::command::Execute;

    #[test]
    fn statements_overlap_if_their_locks_were_held_together_and_ends_in_any_case() {
        use Footprint::{End, Everything, Inserts, Locks, Nothing};
        for (first, later, together, not_together) in [
            (Locks, Locks, true, false),
            (Locks, Inserts, true, false),
            (Inserts, Locks, true, false),
            (Inserts, Inserts, false, false),
            (End, End, true, true),
            // If it needs what the end releases, it waits for that.
            (Locks, End, true, true),
            (Inserts, End, true, true),
            // It may have waited for what the end released.
            (End, Locks, true, false),
            (End, Inserts, true, false),
            (End, Everything, false, false),
            (Everything, End, false, false),
            (End, Nothing, true, true),
        ] {
            assert_eq!(first.may_overlap(&later, true), together, "{first:?} {later:?}");
            assert_eq!(first.may_overlap(&later, false), not_together, "{first:?} {later:?}");
        }
    }

    #[test]
    fn requests_touch_the_keys_that_they_name_or_everything() {
        let of = |line: &str| {
            let mut payload = Vec::new();
            let words: Vec<&str> = line.split(' ').collect();
            payload.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
            for word in words {
                payload.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
            }
            State::default().resp(&payload).0
        };
        let keys = |names: &[&str]| {
            Footprint::Keys(names.iter().map(|name| hash(name.as_bytes())).collect(), false)
        };
        assert_eq!(of("SET a 1"), keys(&["a"]));
        assert_eq!(of("OBJECT ENCODING a"), keys(&["a"]));
        assert_eq!(of("XREAD STREAMS a b 0 0"), keys(&["a", "b"]));
        assert_eq!(of("CLIENT SETNAME a"), Footprint::Nothing);
        for line in ["SET", "EVAL x 1 a", "SCRIPT LOAD a", "SORT a BY b*", "FLUSHALL", "FT.ADD a"] {
            assert_eq!(of(line), Footprint::Everything, "{line}");
        }
    }

    #[test]
    fn a_statement_that_could_not_be_prepared_gives_its_id_to_no_other() {
        let mut footprints = Footprints::new(Protocol::Mysql);
        let connection = ConnectionNumber(1);
        let of = |footprints: &mut Footprints, position, class, payload: &[u8]| {
            let mut raw = Vec::new();
            packet::write(&mut raw, 0, payload);
            let position = Position(position);
            let request = Request { position, at: Time(1), class, payload: raw, recorded: None };
            footprints.request(connection, &request).0
        };
        let (state, query) = (Class::Connection, Class::Query);
        of(&mut footprints, 1, state, b"\x16SELECT nothing FROM nowhere");
        of(&mut footprints, 2, state, b"\x16INSERT INTO t VALUES (?)");
        footprints.answered(Position(1), Outcome::Error);
        footprints.answered(Position(2), Outcome::Ok);
        let naming = Execute::naming(9, 1, &[]);
        of(&mut footprints, 3, state, &packet::payload(&naming));
        // A second one reports types only.
        of(&mut footprints, 4, state, b"\x16UPDATE t SET a = ?");
        of(&mut footprints, 5, state, &packet::payload(&naming));
        let execute = b"\x17\x09\0\0\0\0\x01\0\0\0\0\0";
        assert_eq!(of(&mut footprints, 6, query, execute), Footprint::Inserts);
    }
}
