//! The differences between protocols in sending requests again.

use super::footprint::arguments;
use super::mysql::MysqlSession;
use super::plan::Request;
use crate::entry::{Class, Outcome, Position, Time};
use crate::error::Result;
use crate::protocol::raw::Raw;
use crate::protocol::resp::Resp;
use crate::protocol::{Conversation, Protocol};

/// The user and password for logging in.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// The user; the recorded one if `None`.
    pub user: Option<String>,
    /// The password.
    pub password: Option<String>,
}

/// What is sent for a request of the log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outgoing {
    /// Nothing: it concerns only the original connection.
    Nothing,
    /// These bytes; their outcome is compared with the recorded one if it matters.
    Bytes { bytes: Vec<u8>, is_compared: bool, is_told_late: bool },
    /// These bytes, which the server answers after an action of another client.
    Blocks(Vec<u8>),
}

/// A connection's protocol and state.
pub(super) enum Dialect {
    Resp(Box<RespSession>),
    Mysql(Box<MysqlSession>),
    Raw(Raw),
}

/// A connection that speaks RESP.
#[derive(Default)]
pub(super) struct RespSession {
    conversation: Resp,
    in_multi: bool,
    /// The server's id of the connection.
    pub(super) client_id: Option<u64>,
}

impl Dialect {
    pub(super) fn new(protocol: Protocol) -> Self {
        match protocol {
            Protocol::Resp => Self::Resp(Box::default()),
            Protocol::Mysql => Self::Mysql(Box::default()),
            Protocol::Raw => Self::Raw(Raw::new()),
        }
    }

    pub(super) fn conversation(&mut self) -> &mut dyn Conversation {
        match self {
            Self::Resp(session) => &mut session.conversation,
            Self::Mysql(session) => &mut session.conversation,
            Self::Raw(raw) => raw,
        }
    }

    /// Determines what to send for a request; `has_answered_exec` if the EXEC after a WATCH was
    /// answered.
    pub(super) fn outgoing(
        &mut self,
        request: &Request,
        credentials: &Credentials,
        has_answered_exec: bool,
    ) -> Outgoing {
        match self {
            Self::Resp(session) => session.outgoing(request, credentials, has_answered_exec),
            Self::Mysql(session) => session.outgoing(request),
            Self::Raw(_) => as_it_is(request),
        }
    }

    /// Handles the answer to a request.
    pub(super) fn answered(&mut self, request: &Request, outcome: Outcome) {
        if let Self::Mysql(session) = self {
            session.answered(request, outcome);
        }
    }

    pub(super) fn error_text(&self, answer: &[u8]) -> String {
        let text = match self {
            Self::Resp(_) | Self::Raw(_) => answer.split(|&byte| byte == b'\r').next(),
            Self::Mysql(_) => MysqlSession::error_text(answer),
        };
        String::from_utf8_lossy(text.unwrap_or_default()).into_owned()
    }
}

pub(super) fn as_it_is(request: &Request) -> Outgoing {
    Outgoing::Bytes { bytes: request.payload.clone(), is_compared: true, is_told_late: false }
}

/// Encodes a RESP request.
pub(super) fn resp_request(words: &[&[u8]]) -> Vec<u8> {
    let mut writer = resp::Writer::new(resp::Protocol::Resp2);
    writer.array(words.len());
    words.iter().for_each(|word| writer.bulk(word));
    writer.take()
}

/// Encodes the login request, if there are credentials.
pub(super) fn auth(credentials: &Credentials) -> Option<Vec<u8>> {
    let password = credentials.password.as_deref()?.as_bytes();
    Some(match &credentials.user {
        Some(user) => resp_request(&[b"AUTH", user.as_bytes(), password]),
        None => resp_request(&[b"AUTH", password]),
    })
}

impl RespSession {
    fn outgoing(
        &mut self,
        request: &Request,
        credentials: &Credentials,
        has_answered_exec: bool,
    ) -> Outgoing {
        let arguments = arguments(&request.payload);
        let mut words: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
        let name = words.first().map(|name| name.to_ascii_lowercase()).unwrap_or_default();
        let plain = |bytes: Vec<u8>, is_compared| Outgoing::Bytes {
            bytes,
            is_compared,
            is_told_late: false,
        };
        match &name[..] {
            // The connection has logged in with the given credentials.
            b"auth" if credentials.password.is_some() => return Outgoing::Nothing,
            b"hello" if credentials.password.is_some() => {
                let auth_at = words.iter().position(|word| word.eq_ignore_ascii_case(b"auth"));
                if let Some(at) = auth_at {
                    words.drain(at..(at + 3).min(words.len()));
                }
                return plain(resp_request(&words), true);
            }
            // The order of the transactions is known: the one that was executed is executed, the
            // other one is not.
            b"watch" if has_answered_exec && !self.in_multi => return Outgoing::Nothing,
            b"exec" if self.in_multi && request.recorded == Some(Outcome::Error) => {
                self.in_multi = false;
                return plain(resp_request(&[b"DISCARD"]), false);
            }
            b"multi" => self.in_multi = true,
            b"exec" | b"discard" | b"reset" => self.in_multi = false,
            _ => {}
        }
        if !self.in_multi
            && let Some(timeout_at) = timeout_of(&name, &words)
        {
            // It ends when its answer was recorded, not after a period of time.
            words[timeout_at] = b"0";
            return Outgoing::Blocks(resp_request(&words));
        }
        as_it_is(request)
    }
}

/// Whether a request is a WATCH.
pub(super) fn is_watch(payload: &[u8]) -> bool {
    let begin = &payload[..payload.len().min(24)];
    begin.windows(5).any(|word| word.eq_ignore_ascii_case(b"watch"))
}

/// The index of the timeout among the arguments of a command that may block.
fn timeout_of(name: &[u8], words: &[&[u8]]) -> Option<usize> {
    let block = || words.iter().position(|word| word.eq_ignore_ascii_case(b"block"));
    let at = match name {
        b"blpop" | b"brpop" | b"brpoplpush" | b"blmove" | b"bzpopmin" | b"bzpopmax" => {
            words.len() - 1
        }
        b"blmpop" | b"bzmpop" => 1,
        b"blmovem" => 5,
        b"xread" | b"xreadgroup" => block()? + 1,
        _ => return None,
    };
    (at > 0 && at < words.len()).then_some(at)
}

/// Logs in on a new connection, as its protocol requires.
pub(super) fn log_in(
    target: &mut super::target::Target,
    first: &Request,
    credentials: &Credentials,
) -> Result<()> {
    match &target.dialect {
        Dialect::Resp(_) => match auth(credentials) {
            Some(auth) => {
                let (outcome, _) = target.ask(&auth)?;
                match outcome {
                    Outcome::Ok => Ok(()),
                    Outcome::Error => Err(crate::error::Error::Server {
                        what: "the server refused the given user and password".into(),
                    }),
                }
            }
            None => Ok(()),
        },
        Dialect::Mysql(_) => {
            debug_assert_eq!(first.class, Class::Connection);
            super::mysql::log_in(target, &first.payload, credentials)
        }
        Dialect::Raw(_) => Ok(()),
    }
}

/// Logs in on a connection that stands for no original one.
pub(super) fn log_in_as_ourselves(
    target: &mut super::target::Target,
    credentials: &Credentials,
) -> Result<()> {
    let payload = match &target.dialect {
        Dialect::Mysql(_) => super::mysql::plain_login(),
        Dialect::Resp(_) | Dialect::Raw(_) => Vec::new(),
    };
    let request = Request {
        position: Position(0),
        at: Time(0),
        class: Class::Connection,
        payload,
        recorded: None,
    };
    log_in(target, &request, credentials)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str, recorded: Option<Outcome>, session: &mut RespSession) -> Outgoing {
        let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        let request = Request {
            position: Position(1),
            at: Time(1),
            class: Class::Query,
            payload: resp_request(&words),
            recorded,
        };
        let credentials = Credentials { user: None, password: Some("secret".into()) };
        session.outgoing(&request, &credentials, false)
    }

    fn bytes(line: &str) -> Vec<u8> {
        resp_request(&line.split(' ').map(str::as_bytes).collect::<Vec<_>>())
    }

    #[test]
    fn a_blocking_command_waits_for_its_recorded_end() {
        let mut session = RespSession::default();
        for (line, sent) in [
            ("BLPOP a b 1.5", "BLPOP a b 0"),
            ("blmpop 3 1 k LEFT", "blmpop 0 1 k LEFT"),
            (
                "BLMOVEM s d LEFT RIGHT 1.5 EXACTLY 3 BULK",
                "BLMOVEM s d LEFT RIGHT 0 EXACTLY 3 BULK",
            ),
            ("XREAD COUNT 1 BLOCK 100 STREAMS s $", "XREAD COUNT 1 BLOCK 0 STREAMS s $"),
        ] {
            assert_eq!(of(line, None, &mut session), Outgoing::Blocks(bytes(sent)), "{line}");
        }
        // Inside a transaction, it does not block.
        of("MULTI", None, &mut session);
        assert!(matches!(of("BLPOP a 1", None, &mut session), Outgoing::Bytes { .. }));
    }

    #[test]
    fn a_transaction_that_was_not_executed_is_not_executed_again() {
        let mut session = RespSession::default();
        of("MULTI", None, &mut session);
        let Outgoing::Bytes { bytes: sent, is_compared, .. } =
            of("EXEC", Some(Outcome::Error), &mut session)
        else {
            panic!("it is sent");
        };
        assert_eq!((sent, is_compared), (bytes("DISCARD"), false));
    }

    #[test]
    fn recorded_passwords_are_not_used_if_there_is_another() {
        let mut session = RespSession::default();
        assert_eq!(of("AUTH old", None, &mut session), Outgoing::Nothing);
        let Outgoing::Bytes { bytes: sent, .. } =
            of("HELLO 3 AUTH someone old SETNAME x", None, &mut session)
        else {
            panic!("it is sent");
        };
        assert_eq!(sent, bytes("HELLO 3 SETNAME x"));
    }
}
