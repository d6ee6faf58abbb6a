//! The effects of requests on a session: its settings, its prepared statements, its transaction.

use std::collections::BTreeMap;

use super::answer::{Prepared, status};
use super::command::{Code, Execute};
use super::sql::{self, Kind};
use crate::entry::Class;

/// More settings than any client has; further ones are not carried over.
const SETTINGS_MAX: usize = 4096;

/// A change that remains in force until another of the same name replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Change {
    /// Replaces the request with this name.
    Keep(String),
    /// COM_STMT_PREPARE of a statement, read-only or not: kept under the id that the server
    /// returns.
    Prepare { reads: bool },
    /// COM_CHANGE_USER: discards everything except the login.
    NewUser,
    /// COM_RESET_CONNECTION: keeps only the user and the database.
    Reset,
}

/// A prepared statement.
#[derive(Clone, Debug)]
struct Statement {
    /// The request that prepared it.
    request: Vec<u8>,
    /// Whether executing it changes nothing outside a transaction.
    reads: bool,
    /// The number of its parameters.
    parameters: u16,
    /// The types of the parameters as last sent by the client, which need not repeat them.
    types: Vec<u8>,
}

/// The session so far.
#[derive(Debug)]
pub(super) struct Session {
    settings: Vec<(String, Vec<u8>)>,
    statements: BTreeMap<u32, Statement>,
    /// The statement prepared last, which may be executed without its id.
    last_id: Option<u32>,
    /// The server's flags, as last received.
    status: u16,
}

impl Session {
    pub(super) fn new() -> Self {
        Self {
            settings: Vec::new(),
            statements: BTreeMap::new(),
            last_id: None,
            status: status::AUTOCOMMIT,
        }
    }

    /// Whether each statement is its own transaction.
    fn is_autocommit(&self) -> bool {
        self.status & (status::IN_TRANSACTION | status::AUTOCOMMIT) == status::AUTOCOMMIT
    }

    /// Determines the class of a query, and its effect on the session. `is_alone` says that the
    /// server has answered all before it.
    pub(super) fn query(&self, sql: &[u8], is_alone: bool) -> (Class, Option<Change>) {
        let statements = sql::statements(sql);
        let kinds: Vec<Kind> = statements.iter().map(|statement| sql::kind(statement)).collect();
        if let [kind] = &kinds[..] {
            return match kind {
                Kind::Reads if is_alone && self.is_autocommit() => (Class::ReadOnly, None),
                Kind::Administers => (Class::ReadOnly, None),
                Kind::Sets(name) => (self.setting(is_alone), Some(Change::Keep(name.clone()))),
                // It may end a transaction.
                Kind::SetsAutocommit(_) => {
                    (self.setting(is_alone), Some(Change::Keep("set autocommit".into())))
                }
                _ => (Class::Query, None),
            };
        }
        let reads = kinds.iter().all(|kind| *kind == Kind::Reads);
        let is_read_only = reads && is_alone && self.is_autocommit();
        (if is_read_only { Class::ReadOnly } else { Class::Query }, None)
    }

    /// Inside a transaction, a setting is part of it, because its place in it may matter.
    fn setting(&self, is_alone: bool) -> Class {
        if is_alone && self.is_autocommit() { Class::Connection } else { Class::Query }
    }

    /// Determines the class of a command other than a query, and its effect on the session.
    pub(super) fn command(
        &mut self,
        code: Code,
        payload: &[u8],
        is_alone: bool,
    ) -> (Class, Option<Change>) {
        let keep = |name: &str| Some(Change::Keep(name.to_owned()));
        match code {
            Code::Query => self.query(&payload[1..], is_alone),
            Code::InitDb => (self.setting(is_alone), keep("use")),
            Code::SetOption => (Class::Connection, keep("option")),
            Code::ChangeUser => (Class::Connection, Some(Change::NewUser)),
            Code::ResetConnection => (Class::Connection, Some(Change::Reset)),
            Code::Prepare => {
                let statements = sql::statements(&payload[1..]);
                let reads = matches!(&statements[..], [one] if sql::kind(one) == Kind::Reads);
                self.last_id = None;
                (Class::Connection, Some(Change::Prepare { reads }))
            }
            Code::Close => {
                if let Some(id) = super::command::statement_id(payload) {
                    self.statements.remove(&id);
                }
                (Class::Connection, None)
            }
            Code::Execute => (self.execute(payload, is_alone), None),
            Code::BulkExecute
            | Code::LongData
            | Code::ResetStatement
            | Code::CreateDb
            | Code::DropDb
            | Code::Other => (Class::Query, None),
            Code::Quit
            | Code::Reads
            | Code::FieldList
            | Code::Statistics
            | Code::Fetch
            | Code::ProcessInfo
            | Code::Replica => (Class::ReadOnly, None),
        }
    }

    /// The class of an execution.
    fn execute(&self, payload: &[u8], is_alone: bool) -> Class {
        let reads = self.statement(payload).is_some_and(|(_, statement)| statement.reads);
        if reads && is_alone && self.is_autocommit() { Class::ReadOnly } else { Class::Query }
    }

    /// Returns a request with the types of a statement's parameters if this execution changes them,
    /// because later ones rely on them.
    pub(super) fn naming(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let (id, statement) = self.statement(payload)?;
        let types = Execute::parse(payload, statement.parameters)?.types?.to_vec();
        let statement = self.statements.get_mut(&id).filter(|one| one.types != types)?;
        let naming = Execute::naming(id, statement.parameters, &types);
        statement.types = types;
        Some(naming)
    }

    /// The statement that a payload executes.
    fn statement(&self, payload: &[u8]) -> Option<(u32, &Statement)> {
        let id = super::command::statement_id(payload)?;
        let id = if id == u32::MAX { self.last_id? } else { id };
        self.statements.get(&id).map(|statement| (id, statement))
    }

    /// Applies a change after the server has accepted `request`.
    pub(super) fn apply(&mut self, change: Change, request: Vec<u8>, prepared: Option<Prepared>) {
        match change {
            Change::Keep(name) => {
                self.settings.retain(|(known, _)| *known != name);
                if self.settings.len() < SETTINGS_MAX {
                    self.settings.push((name, request));
                }
            }
            Change::Prepare { reads } => {
                let Some(Prepared { id, parameters }) = prepared else { return };
                self.last_id = Some(id);
                let statement = Statement { request, reads, parameters, types: Vec::new() };
                self.statements.insert(id, statement);
            }
            Change::NewUser => {
                self.settings.retain(|(name, _)| name == "login");
                self.settings.push(("change user".into(), request));
                self.statements.clear();
                self.status = status::AUTOCOMMIT;
            }
            Change::Reset => {
                self.settings
                    .retain(|(name, _)| matches!(&**name, "login" | "change user" | "use"));
                self.statements.clear();
                self.status = status::AUTOCOMMIT;
            }
        }
    }

    /// Notes that the position was lost: a transaction may be open.
    pub(super) fn is_in_doubt(&mut self) {
        self.status = status::IN_TRANSACTION;
    }

    /// Notes the flags at the end of an answer.
    pub(super) fn told_status(&mut self, status: u16) {
        self.status = status;
    }

    /// The requests in force, oldest first. Parameter types are an execution of class Connection,
    /// which replay does not execute.
    pub(super) fn requests(&self) -> Vec<Vec<u8>> {
        let settings = self.settings.iter().map(|(_, request)| request.clone());
        let mut requests: Vec<_> = settings.collect();
        for (id, statement) in &self.statements {
            requests.push(statement.request.clone());
            // No request contains its id: it follows the one that prepared it.
            requests.push(Execute::naming(*id, statement.parameters, &statement.types));
        }
        requests
    }
}
