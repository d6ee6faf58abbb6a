//! Sends MySQL's requests again: the login with given credentials, statements under their new ids,
//! and the time as recorded.

use std::collections::{HashMap, VecDeque};
use std::io::{Read, Write};

use sha1::{Digest, Sha1};
use sha2::Sha256;

use super::dialect::{Credentials, Outgoing, as_it_is};
use super::plan::Request;
use super::target::Target;
use crate::entry::{Class, Outcome, Time};
use crate::error::{Error, Result};
use crate::protocol::Side;
use crate::protocol::mysql::Mysql;
use crate::protocol::mysql::command::{Code, Execute, STATEMENT_ID_AT, statement_id};
use crate::protocol::mysql::login::{Greeting, Login, capability};
use crate::protocol::mysql::packet::{self, Fields, HEADER_BYTES};
use crate::protocol::mysql::sql::{self, Kind};

/// The authentication method of MariaDB and of old MySQL.
const NATIVE: &[u8] = b"mysql_native_password";

/// The authentication method of MySQL from version 8 on, if the server has the password in its
/// cache.
const CACHING: &[u8] = b"caching_sha2_password";

/// A connection that speaks MySQL's protocol.
#[derive(Default)]
pub(super) struct MysqlSession {
    pub(super) conversation: Mysql,
    /// Prepared statements without a recorded id, oldest first; `None` if the preparation failed.
    unnamed: VecDeque<Option<Statement>>,
    /// Statements by their recorded ids.
    statements: HashMap<u32, Statement>,
    /// Whether the client itself sets the time.
    sets_time: bool,
    /// The server's id of the connection.
    pub(super) thread: u32,
}

/// A prepared statement.
#[derive(Clone, Debug)]
struct Statement {
    id: u32,
    parameters: u16,
    asks_for_time: bool,
    /// The types of its parameters as last sent.
    types: Vec<u8>,
}

impl MysqlSession {
    pub(super) fn outgoing(&mut self, request: &Request) -> Outgoing {
        let raw = &request.payload;
        if is_login(raw) {
            return Outgoing::Nothing;
        }
        let payload = packet::payload(raw);
        let Some(first) = payload.first() else { return as_it_is(request) };
        let code = Code::of(*first);
        match code {
            Code::Query => self.query(request, &payload[1..]),
            Code::Execute if request.class == Class::Connection => {
                self.name(&payload);
                Outgoing::Nothing
            }
            Code::Close => self.close(&payload),
            // Its proof cannot be sent again; its other effects are these.
            Code::ChangeUser => {
                *self = Self {
                    conversation: std::mem::take(&mut self.conversation),
                    thread: self.thread,
                    ..Self::default()
                };
                let mut bytes = Vec::new();
                packet::write(&mut bytes, 0, &[0x1f]);
                if let Some(database) = database_of(&payload).filter(|name| !name.is_empty()) {
                    packet::write(&mut bytes, 0, &[&[0x02], database].concat());
                }
                Outgoing::Bytes { bytes, is_compared: false, is_told_late: false }
            }
            Code::ResetConnection => {
                self.statements.clear();
                self.unnamed.clear();
                self.sets_time = false;
                as_it_is(request)
            }
            code if code.names_statement() => self.of_statement(request, code, &payload),
            _ => as_it_is(request),
        }
    }

    fn query(&mut self, request: &Request, sql: &[u8]) -> Outgoing {
        let (mut asks_for_time, mut loads) = (false, false);
        for statement in sql::statements(sql) {
            match sql::kind(statement) {
                Kind::Sets(name) if name == "set timestamp" => {
                    let lower = statement.to_ascii_lowercase();
                    self.sets_time = !lower.windows(7).any(|word| word == b"default");
                }
                Kind::LoadsLocal => loads = true,
                _ => {}
            }
            asks_for_time |= sql::may_ask_for_time(statement);
        }
        let mut bytes = self.time(request.at, asks_for_time);
        bytes.extend_from_slice(&request.payload);
        Outgoing::Bytes { bytes, is_compared: true, is_told_late: loads }
    }

    /// Returns the query that restores the recorded NOW(), if it matters.
    fn time(&self, at: Time, asks_for_time: bool) -> Vec<u8> {
        let mut bytes = Vec::new();
        if asks_for_time && !self.sets_time {
            let micros = at.0 / 1000;
            let (seconds, micros) = (micros / 1_000_000, micros % 1_000_000);
            let sql = format!("\x03SET TIMESTAMP={seconds}.{micros:06}");
            packet::write(&mut bytes, 0, sql.as_bytes());
        }
        bytes
    }

    /// Learns the types of a statement, or the recorded id of the oldest one without an id.
    fn name(&mut self, payload: &[u8]) {
        let Some(id) = statement_id(payload) else { return };
        let found = match self.statements.get(&id) {
            Some(known) => Some(known.clone()),
            None => self.unnamed.pop_front().flatten(),
        };
        let Some(mut statement) = found else { return };
        if let Some(types) =
            Execute::parse(payload, statement.parameters).and_then(|execute| execute.types)
        {
            statement.types = types.to_vec();
        }
        self.statements.insert(id, statement);
    }

    fn close(&mut self, payload: &[u8]) -> Outgoing {
        let Some(statement) = statement_id(payload).and_then(|id| self.statements.remove(&id))
        else {
            return Outgoing::Nothing;
        };
        let mut bytes = Vec::new();
        packet::write(&mut bytes, 0, &[&[0x19], &statement.id.to_le_bytes()[..]].concat());
        Outgoing::Bytes { bytes, is_compared: true, is_told_late: false }
    }

    /// Returns a command with the id that its statement has here.
    fn of_statement(&mut self, request: &Request, code: Code, payload: &[u8]) -> Outgoing {
        let recorded = statement_id(payload).unwrap_or(0);
        let oldest = self.unnamed.front().and_then(Option::as_ref);
        let Some(statement) = self.statements.get(&recorded).or(oldest).cloned() else {
            return as_it_is(request);
        };
        let mut payload = payload.to_vec();
        payload[STATEMENT_ID_AT].copy_from_slice(&statement.id.to_le_bytes());
        let mut bytes = Vec::new();
        if code == Code::Execute {
            // Without a cursor, because the replay fetches no rows from it.
            payload[STATEMENT_ID_AT.end] = 0;
            if let Some(execute) = Execute::parse(&payload, statement.parameters) {
                match execute.types {
                    Some(types) => {
                        if let Some(known) = self.statements.get_mut(&recorded) {
                            known.types = types.to_vec();
                        }
                    }
                    // Skipped read-only executions in between sent them to the original server.
                    None if !statement.types.is_empty() => {
                        let flag_at = execute.flag_at;
                        payload[flag_at] = 1;
                        payload.splice(flag_at + 1..flag_at + 1, statement.types.iter().copied());
                    }
                    None => {}
                }
            }
            bytes = self.time(request.at, statement.asks_for_time);
        }
        packet::write(&mut bytes, 0, &payload);
        Outgoing::Bytes { bytes, is_compared: true, is_told_late: false }
    }

    pub(super) fn answered(&mut self, request: &Request, outcome: Outcome) {
        let payload = packet::payload(&request.payload);
        let is_prepare = payload.first().is_some_and(|code| Code::of(*code) == Code::Prepare);
        // A preparation that failed in the recording has no id that follows.
        if !is_prepare || request.recorded == Some(Outcome::Error) {
            return;
        }
        let prepared = self.conversation.last_prepared().filter(|_| outcome == Outcome::Ok);
        self.unnamed.push_back(prepared.map(|prepared| Statement {
            id: prepared.id,
            parameters: prepared.parameters,
            asks_for_time: sql::may_ask_for_time(&payload[1..]),
            types: Vec::new(),
        }));
    }

    /// The query for whether this connection waits for a lock other than a row's.
    pub(super) fn asks_whether_it_waits(&self) -> Vec<u8> {
        query(&format!(
            "SELECT IF(COUNT(*), CONCAT('LOCKED', '!'), '') AS answer \
             FROM information_schema.PROCESSLIST \
             WHERE ID = {} AND (STATE LIKE 'Waiting for%lock' OR STATE LIKE 'Waiting for table%' \
             OR STATE = 'User lock')",
            self.thread
        ))
    }

    /// Whether the answer says so.
    pub(super) fn says_that_it_waits(answer: &[u8]) -> bool {
        answer.windows(7).any(|word| word == b"LOCKED!")
    }

    /// The query for the number of transactions that currently wait for rows. InnoDB's tables of
    /// transactions and locks show the state at their last inspection.
    pub(super) fn row_waits_query() -> Vec<u8> {
        query(&format!("SHOW GLOBAL STATUS LIKE '{ROW_WAITS}'"))
    }

    /// The number in the answer.
    pub(super) fn waits_for_rows(answer: &[u8]) -> Option<usize> {
        let name =
            answer.windows(ROW_WAITS.len()).rposition(|word| word == ROW_WAITS.as_bytes())?;
        let (len, rest) = answer[name + ROW_WAITS.len()..].split_first()?;
        std::str::from_utf8(rest.get(..usize::from(*len))?).ok()?.parse().ok()
    }

    /// The query for the connections that block others.
    pub(super) fn blocking_connections_query() -> Vec<u8> {
        query(
            "SELECT GROUP_CONCAT(DISTINCT CONCAT('<', holder.trx_mysql_thread_id, '>') SEPARATOR '') \
             FROM information_schema.INNODB_LOCK_WAITS AS waits \
             JOIN information_schema.INNODB_TRX AS holder ON holder.trx_id = waits.blocking_trx_id",
        )
    }

    /// The server's ids of the connections in the answer.
    pub(super) fn blocking(answer: &[u8]) -> Vec<u32> {
        let text = String::from_utf8_lossy(answer);
        let marked = text.split('<').skip(1).filter_map(|rest| rest.split_once('>'));
        marked.filter_map(|(number, _)| number.parse().ok()).collect()
    }

    /// The text of an error, after its number and state.
    pub(super) fn error_text(answer: &[u8]) -> Option<&[u8]> {
        let mut rest = answer;
        while rest.len() > HEADER_BYTES {
            let (payload, behind) = packet::split(rest);
            if payload.first() == Some(&0xff) {
                return payload.get(9..);
            }
            rest = behind;
        }
        None
    }
}

/// The number of transactions that wait for rows locked by others.
const ROW_WAITS: &str = "Innodb_row_lock_current_waits";

/// Encodes a query command.
fn query(sql: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet::write(&mut bytes, 0, &[&[3], sql.as_bytes()].concat());
    bytes
}

/// The database named by a COM_CHANGE_USER.
fn database_of(payload: &[u8]) -> Option<&[u8]> {
    let mut fields = Fields(payload.get(1..)?);
    fields.zero_ended()?;
    let proof_len = fields.u8()?;
    fields.bytes(usize::from(proof_len))?;
    fields.zero_ended()
}

/// Whether a request is a login: all commands have number 0.
fn is_login(raw: &[u8]) -> bool {
    raw.get(3).is_some_and(|sequence| *sequence != 0)
}

/// Logs in as the recorded `request` did, but as the given user.
pub(super) fn log_in(target: &mut Target, request: &[u8], credentials: &Credentials) -> Result<()> {
    let refused = |what: String| Error::Server { what };
    let mut login = Login::parse(&packet::payload(request))
        .filter(|_| is_login(request))
        .ok_or_else(|| refused("a connection's login is not in the log".into()))?;
    let password = credentials.password.as_deref().unwrap_or_default().as_bytes();
    let greeting = read_packet(target)?;
    let greeting = Greeting::parse(packet::split(&greeting).0)
        .ok_or_else(|| refused(format!("the server greets with {}", words(&greeting))))?;
    if let super::dialect::Dialect::Mysql(session) = &mut target.dialect {
        session.thread = greeting.thread;
    }
    login.capabilities &= greeting.capabilities;
    login.capabilities &= !(capability::SSL | capability::COMPRESS | capability::ZSTD);
    login.capabilities |= capability::PROTOCOL_41;
    if let Some(user) = &credentials.user {
        login.user = user.clone().into_bytes();
    }
    login.auth = scrambled(password, &greeting.scramble);
    login.plugin = NATIVE.to_vec();
    write_packet(target, 1, &login.write())?;
    let mut plugin = NATIVE.to_vec();
    loop {
        let raw = read_packet(target)?;
        let payload = packet::split(&raw).0;
        match payload {
            [0, ..] => return Ok(()),
            [0xfe, rest @ ..] => {
                let end = rest.iter().position(|&byte| byte == 0).unwrap_or(rest.len());
                let (wanted, scramble) = rest.split_at(end);
                let scramble = scramble.strip_prefix(&[0]).unwrap_or(scramble);
                let scramble = scramble.strip_suffix(&[0]).unwrap_or(scramble);
                let proof = match wanted {
                    NATIVE => scrambled(password, scramble),
                    CACHING => scrambled_by_sha256(password, scramble),
                    _ if password.is_empty() => Vec::new(),
                    _ => return Err(refused(unknown_plugin(&login.user, wanted))),
                };
                plugin = wanted.to_vec();
                write_packet(target, raw[3].wrapping_add(1), &proof)?;
            }
            // The server knows the password, and an OK follows.
            [1, 3] if plugin == CACHING => {}
            [1, ..] => return Err(refused(not_cached(&login.user, &plugin))),
            [0xff, ..] => {
                return Err(refused(format!(
                    "the server refused user {}: {}",
                    String::from_utf8_lossy(&login.user),
                    words(&raw)
                )));
            }
            _ => return Err(refused("the server answers a login with an unknown packet".into())),
        }
    }
}

/// The advice for a user with an unsupported authentication method.
fn unknown_plugin(user: &[u8], plugin: &[u8]) -> String {
    let user = String::from_utf8_lossy(user);
    format!(
        "the server wants user {user} to prove itself by {}, which replay does not know: give it a user \
         identified by mysql_native_password (CREATE USER … IDENTIFIED VIA mysql_native_password in \
         MariaDB, IDENTIFIED WITH in MySQL) or caching_sha2_password",
        String::from_utf8_lossy(plugin)
    )
}

/// The advice for a server that requires the password itself, which is sent only over an encrypted
/// connection.
fn not_cached(user: &[u8], plugin: &[u8]) -> String {
    let user = String::from_utf8_lossy(user);
    format!(
        "the server does not have the password of user {user} in its cache ({}), and wants it over TLS, \
         which replay does not speak: log in as that user once with another client after the server's \
         start, or give replay a user identified by mysql_native_password",
        String::from_utf8_lossy(plugin)
    )
}

/// A default login without a user.
pub(super) fn plain_login() -> Vec<u8> {
    let login = Login {
        capabilities: capability::PROTOCOL_41 | capability::LONG_PASSWORD,
        max_packet: 1 << 24,
        // utf8mb4_general_ci
        collation: 45,
        user: Vec::new(),
        auth: Vec::new(),
        database: Vec::new(),
        plugin: Vec::new(),
    };
    let mut raw = Vec::new();
    packet::write(&mut raw, 1, &login.write());
    raw
}

/// The text of a packet if it is an error.
fn words(raw: &[u8]) -> String {
    String::from_utf8_lossy(MysqlSession::error_text(raw).unwrap_or_default()).into_owned()
}

fn read_packet(target: &mut Target) -> Result<Vec<u8>> {
    let failed = |error| Error::io("logging in", error);
    let stream = target.blocking_stream(true)?;
    let mut raw = vec![0; HEADER_BYTES];
    stream.read_exact(&mut raw).map_err(failed)?;
    raw.resize(HEADER_BYTES + packet::len_of(&raw), 0);
    stream.read_exact(&mut raw[HEADER_BYTES..]).map_err(failed)?;
    target.blocking_stream(false)?;
    target.heard(Side::Server, &raw);
    Ok(raw)
}

fn write_packet(target: &mut Target, sequence: u8, payload: &[u8]) -> Result<()> {
    let mut raw = Vec::new();
    packet::write(&mut raw, sequence, payload);
    let stream = target.blocking_stream(true)?;
    stream.write_all(&raw).map_err(|error| Error::io("logging in", error))?;
    target.blocking_stream(false)?;
    target.heard(Side::Client, &raw);
    Ok(())
}

/// Scrambles the password: SHA1(password) xor SHA1(scramble, SHA1(SHA1(password))).
fn scrambled(password: &[u8], scramble: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha1::digest(password);
    let twice = Sha1::digest(once);
    let mut hasher = Sha1::new();
    hasher.update(scramble);
    hasher.update(twice);
    hasher.finalize().iter().zip(once).map(|(mask, byte)| mask ^ byte).collect()
}

/// Scrambles it by the newer rule: SHA256(password) xor SHA256(SHA256(SHA256(password)), scramble).
fn scrambled_by_sha256(password: &[u8], scramble: &[u8]) -> Vec<u8> {
    if password.is_empty() {
        return Vec::new();
    }
    let once = Sha256::digest(password);
    let mut hasher = Sha256::new();
    hasher.update(Sha256::digest(once));
    hasher.update(scramble);
    hasher.finalize().iter().zip(once).map(|(mask, byte)| mask ^ byte).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;
    use crate::protocol::Protocol;
    use crate::replay::dialect::Dialect;

    const SCRAMBLE: &[u8] = b"abcdefghijklmnopqrst";

    /// Logs in to a server that greets, reads a login, asks for a proof by `plugin`, and answers it
    /// with `last`. Returns the outcome and the proof.
    fn log_in_to(plugin: &[u8], last: &'static [&'static [u8]]) -> (Result<()>, Vec<u8>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("it is bound");
        let switch = [&[0xfe], plugin, &[0], SCRAMBLE, &[0]].concat();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a client");
            let mut send = |sequence, payload: &[u8]| {
                let mut raw = Vec::new();
                packet::write(&mut raw, sequence, payload);
                stream.write_all(&raw).expect("it listens");
                let mut head = [0; HEADER_BYTES];
                if sequence > 2 || stream.read_exact(&mut head).is_err() {
                    return Vec::new();
                }
                let mut payload = vec![0; packet::len_of(&head)];
                stream.read_exact(&mut payload).expect("a whole packet");
                payload
            };
            let capabilities = [0xff, 0xf7, 45, 2, 0, 0xff, 0x01, 21];
            let greeting = [
                &b"\x0a8.0.36\0\x01\0\0\0"[..],
                &SCRAMBLE[..8],
                &[0],
                &capabilities,
                &[0; 10],
                &SCRAMBLE[8..],
                b"\0caching_sha2_password\0",
            ]
            .concat();
            send(0, &greeting);
            let proof = send(2, &switch);
            for (index, payload) in last.iter().enumerate() {
                send(u8::try_from(index).expect("few") + 4, payload);
            }
            proof
        });
        let mut target =
            Target::connect(address, Dialect::new(Protocol::Mysql)).expect("it listens");
        let credentials =
            Credentials { user: Some("someone".into()), password: Some("secret".into()) };
        let outcome = log_in(&mut target, &plain_login(), &credentials);
        drop(target);
        (outcome, server.join().expect("it does not fail"))
    }

    const OK: &[u8] = &[0, 0, 0, 2, 0, 0, 0];

    #[test]
    fn a_server_of_mysql_8_that_has_the_password_in_its_cache_is_convinced() {
        let (outcome, proof) = log_in_to(CACHING, &[&[1, 3], OK]);
        outcome.expect("it is convinced");
        // Computed by MySQL's rule with another program.
        let expected = "c76e2898612a4cf042c77fa8c4702c4c64c0c2c557c53c4d75595aaa6abae809";
        let shown: String = proof.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_to_do_is_said_where_the_password_itself_is_wanted() {
        let (outcome, _) = log_in_to(CACHING, &[&[1, 4]]);
        let said = outcome.expect_err("it would have to be encrypted").to_string();
        assert!(said.contains("someone") && said.contains("log in as that user once"), "{said}");
    }

    #[test]
    fn what_to_do_is_said_where_the_proof_is_not_known() {
        for plugin in ["client_ed25519", "sha256_password", "auth_gssapi_client"] {
            let (outcome, _) = log_in_to(plugin.as_bytes(), &[]);
            let said = outcome.expect_err("it is not known").to_string();
            assert!(said.contains(plugin) && said.contains("mysql_native_password"), "{said}");
        }
    }
}
