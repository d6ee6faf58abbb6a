//! MIGRATE.

use std::time::Duration;

use command::argument::{self, is};
use command::error::{CommandError, Done};
use keyspace::Need;

use super::super::fetches::Named;
use super::super::migrations::{Moving, NO_MIGRATION};
use super::super::{ClientKey, Engine};
use crate::migrate::{Credentials, MigrateError, Order};

/// How long the target may be silent if that is not said.
const TIMEOUT_MS_DEFAULT: i64 = 1000;

/// No timeout is longer: a week.
const TIMEOUT_MS_MAX: i64 = 7 * 24 * 3600 * 1000;

/// What MIGRATE is told.
struct Request<'a> {
    order: Order,
    keys: &'a [&'a [u8]],
    copies: bool,
}

impl<'a> Request<'a> {
    fn parse(args: &'a [&'a [u8]], payload_readers: rdb::Version) -> Result<Self, CommandError> {
        let (mut copies, mut replaces, mut credentials) = (false, false, None);
        let mut keys = &args[3..4];
        let mut words = &args[6..];
        while let [word, rest @ ..] = words {
            words = match rest {
                _ if is(word, "copy") => {
                    copies = true;
                    rest
                }
                _ if is(word, "replace") => {
                    replaces = true;
                    rest
                }
                [password, rest @ ..] if is(word, "auth") => {
                    // The user that AUTH2 has named before stays: as in Redis.
                    let name = credentials.take().and_then(|it: Credentials| it.name);
                    credentials = Some(Credentials { name, password: password.to_vec() });
                    rest
                }
                [name, password, rest @ ..] if is(word, "auth2") => {
                    let (name, password) = (Some(name.to_vec()), password.to_vec());
                    credentials = Some(Credentials { name, password });
                    rest
                }
                _ if is(word, "keys") => {
                    if !args[3].is_empty() {
                        return Err(CommandError::other(
                            "ERR When using MIGRATE KEYS option, the key argument must be set to \
                             the empty string",
                        ));
                    }
                    keys = rest;
                    &[]
                }
                _ => return Err(CommandError::Syntax),
            };
        }
        let timeout_ms = match argument::int(args[5])? {
            ..=0 => TIMEOUT_MS_DEFAULT,
            timeout_ms => timeout_ms.min(TIMEOUT_MS_MAX),
        };
        let database = argument::int(args[4])?;
        let order = Order {
            host: super::text(args[1]).into_owned(),
            port: keyspace::parse_int(args[2]).and_then(|it| u16::try_from(it).ok()).unwrap_or(0),
            credentials,
            database,
            timeout: Duration::from_millis(timeout_ms.unsigned_abs()),
            replaces,
            payload_readers,
        };
        Ok(Self { order, keys, copies })
    }
}

/// MIGRATE: the client waits, and those that write wait while values are on their way.
pub(super) fn migrate(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let payload_readers = engine.options.saves.rdb.version;
    let Request { order, keys, copies } = Request::parse(args, payload_readers)?;
    if engine.in_transaction {
        return Err(CommandError::other(NO_MIGRATION));
    }
    let db = engine.sessions[key].session.db;
    if engine.shard.keyspace.may_lack() {
        let need = Need::Value;
        let names: Vec<_> = keys.iter().map(|&key| Named { db, key, need }).collect();
        engine.restore_named(&names)?;
    }
    let keyspace = &mut engine.shard.keyspace;
    let mut is_there = |name: &&&[u8]| {
        let found = keyspace.exists(db, name, true);
        let stats = keyspace.stats_mut();
        *(if found { &mut stats.hits } else { &mut stats.misses }) += 1;
        found
    };
    let keys: Vec<Box<[u8]>> =
        keys.iter().filter(|key| is_there(key)).map(|&key| key.into()).collect();
    if keys.is_empty() {
        engine.reply(key).simple("NOKEY");
        return Ok(());
    }
    let moving = Moving { client: key, client_id: engine.sessions[key].id, db, keys, copies };
    Ok(engine.begin_migration(moving, order)?)
}

impl From<MigrateError> for CommandError {
    fn from(why: MigrateError) -> Self {
        Self::Other(why.to_string().into())
    }
}
