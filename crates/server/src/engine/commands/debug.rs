//! DEBUG: what tests and the hunt for bugs need.

use command::argument;
use command::error::{CommandError, Done};
use resp::Writer;

use super::super::{ClientKey, Engine, HostRequest};
use super::{debug_layout, digest};
use super::{error, text};

/// DEBUG.
pub(super) fn debug(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let name = args[1].to_ascii_lowercase();
    match (name.as_slice(), &args[2..]) {
        (b"sleep", [seconds]) => sleep(engine, key, seconds),
        (b"digest", []) => {
            let fingerprint = digest::of_all(&mut engine.shard.keyspace).text();
            engine.reply(key).simple(&fingerprint);
            Ok(())
        }
        (b"digest-value", keys) => {
            let db = engine.sessions[key].session.db;
            engine.reply(key).array(keys.len());
            for name in keys {
                let fingerprint = digest::of_value(&mut engine.shard.keyspace, db, name).text();
                engine.reply(key).simple(&fingerprint);
            }
            Ok(())
        }
        (b"object", [name]) => object(engine, key, name),
        (b"listpack", [name]) => debug_layout::show(engine, key, name, "listpack"),
        (b"quicklist", [name] | [name, _]) => debug_layout::show(engine, key, name, "quicklist"),
        (b"sdslen", [name]) => debug_layout::string_lengths(engine, key, name),
        (b"structsize", []) => {
            debug_layout::struct_sizes(engine, key);
            Ok(())
        }
        (b"populate", [count, rest @ ..]) if rest.len() <= 2 => populate(engine, key, count, rest),
        (b"set-active-expire", [flag]) => {
            engine.shard.expiry.is_on = *flag != b"0";
            engine.reply(key).ok();
            Ok(())
        }
        (b"pause-cron", [flag]) => {
            engine.sleep.is_cron_paused = *flag != b"0";
            engine.reply(key).ok();
            Ok(())
        }
        (b"set-disable-deny-scripts", [flag]) => {
            engine.scripting.allows_all = *flag != b"0";
            engine.reply(key).ok();
            Ok(())
        }
        (b"protocol", [kind]) => protocol(engine.reply(key), kind),
        (b"error", [line]) => Err(error(text(line).into_owned())),
        (b"log", [line]) => {
            engine.deps.logger.warning(&format!("DEBUG LOG: {}", text(line)));
            engine.reply(key).ok();
            Ok(())
        }
        (b"stringmatch-len", [count, pattern]) => {
            let count = argument::count(count)?;
            check_string_bytes(engine, count)?;
            let matched = base::glob::matches(pattern, &vec![b'a'; count]);
            engine.reply(key).int(i64::from(matched));
            Ok(())
        }
        (b"jmap" | b"change-repl-id" | b"quicklist-packed-threshold", _)
        | (b"replybuffer" | b"dict-resizing" | b"set-skip-checksum-validation", _)
        | (b"config-rewrite-force-all" | b"aof-flush-sleep", _) => {
            // There is nothing to turn.
            engine.reply(key).ok();
            Ok(())
        }
        (b"panic", []) => panic!("DEBUG PANIC"),
        (b"reload", options) => reload(engine, key, options),
        (b"loadaof", []) => reload(engine, key, &[]),
        (b"htstats" | b"htstats-key", [_, ..]) => {
            let db = engine.sessions[key].session.db;
            let (keys, _) = engine.shard.keyspace.size(db);
            let report = format!(
                "[Dictionary HT]\nHash table 0 stats (main hash table):\n number of elements: {keys}\n"
            );
            engine.reply(key).verbatim("txt", &report);
            Ok(())
        }
        (b"help", []) => super::help::help(engine, key, args),
        _ => Err(error(format!(
            "ERR unknown subcommand or wrong number of arguments for '{}'. Try DEBUG HELP.",
            text(args[1])
        ))),
    }
}

/// DEBUG SLEEP: nothing is executed and nothing is sent for a while.
fn sleep(engine: &mut Engine, key: ClientKey, seconds: &[u8]) -> Done {
    let seconds = argument::float(seconds)?;
    let duration = std::time::Duration::try_from_secs_f64(seconds.max(0.0))
        .map_err(|_| CommandError::OutOfRange)?;
    let duration_us = u64::try_from(duration.as_micros()).map_err(|_| CommandError::OutOfRange)?;
    engine.fall_asleep(duration_us);
    engine.reply(key).ok();
    Ok(())
}

/// DEBUG RELOAD and LOADAOF. What the options ask for has no meaning here: memory and the log are
/// the same, whatever is saved or thrown away before.
fn reload(engine: &mut Engine, key: ClientKey, options: &[&[u8]]) -> Done {
    let known = ["MERGE", "NOFLUSH", "NOSAVE"];
    if options.iter().any(|option| !known.iter().any(|name| argument::is(option, name))) {
        return Err(CommandError::other(
            "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.",
        ));
    }
    let has = |name| options.iter().any(|option| argument::is(option, name));
    if has("noflush") && !has("merge") && has_data(engine) {
        // What is there would be there twice.
        return Err(CommandError::other(
            "ERR Error trying to load the RDB dump, check server logs.",
        ));
    }
    if let Some(refusal) = engine.shard.write_refusal() {
        // What only memory has would be gone.
        return Err(error(refusal));
    }
    if engine.shard.log().is_some() {
        engine.request_host(HostRequest::Reload, key);
    } else {
        // There is nothing that the data could come back from.
        engine.reply(key).ok();
    }
    Ok(())
}

fn has_data(engine: &Engine) -> bool {
    let keyspace = &engine.shard.keyspace;
    keyspace.databases().any(|db| keyspace.size(db).0 > 0) || keyspace.libraries().len() > 0
}

fn object(engine: &mut Engine, key: ClientKey, name: &[u8]) -> Done {
    let db = engine.sessions[key].session.db;
    let encoding = engine.shard.keyspace.encoding(db, name).ok_or(CommandError::NoSuchKey)?;
    let idle_s = engine.shard.keyspace.idle_ms(db, name).unwrap_or(0) / 1000;
    let bytes = engine.shard.keyspace.memory_usage(db, name, 0).unwrap_or(0);
    let lru = engine.time.unix_s() & 0x00ff_ffff;
    let mut line = format!(
        "Value at:0x0 refcount:1 encoding:{encoding} serializedlength:{bytes} lru:{lru} lru_seconds_idle:{idle_s}"
    );
    if encoding == "quicklist" {
        line.push_str(
            " ql_nodes:1 ql_avg_node:1 ql_listpack_max:-2 ql_compressed:0 ql_uncompressed_size:0",
        );
    }
    engine.reply(key).simple(&line);
    Ok(())
}

/// How many keys DEBUG POPULATE makes at the most: as many as a gigabyte or so of memory holds.
const POPULATION_MAX: usize = 10_000_000;

/// Checks that a string may be so long.
fn check_string_bytes(engine: &Engine, bytes: usize) -> Done {
    match u64::try_from(bytes) {
        Ok(bytes) if bytes <= engine.options.bulk_bytes_max => Ok(()),
        _ => Err(CommandError::StringTooLong),
    }
}

/// DEBUG POPULATE: many keys at once.
fn populate(engine: &mut Engine, key: ClientKey, count: &[u8], rest: &[&[u8]]) -> Done {
    let count = argument::count(count)?;
    let prefix = rest.first().copied().unwrap_or(b"key");
    let value_bytes = rest.get(1).map(|bytes| argument::count(bytes)).transpose()?.unwrap_or(0);
    check_string_bytes(engine, value_bytes)?;
    if count > POPULATION_MAX {
        return Err(CommandError::OutOfRange);
    }
    let db = engine.sessions[key].session.db;
    for number in 0..count {
        let name = [prefix, format!(":{number}").as_bytes()].concat();
        if engine.shard.keyspace.exists(db, &name, false) {
            continue;
        }
        let mut value = format!("value:{number}").into_bytes();
        if value_bytes > 0 {
            value.resize(value_bytes, 0);
        }
        engine.shard.keyspace.set_string(db, &name, &value, keyspace::Expiry::Clear);
    }
    engine.reply(key).ok();
    Ok(())
}

/// DEBUG PROTOCOL: one reply of each type.
fn protocol(reply: &mut Writer, kind: &[u8]) -> Done {
    match kind.to_ascii_lowercase().as_slice() {
        b"string" => reply.bulk_str("Hello World"),
        b"integer" => reply.int(12345),
        b"double" => reply.double(DOUBLE_EXAMPLE),
        b"bignum" => reply.big_number("1234567999999999999999999999999999999"),
        b"null" => reply.null(),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.int(number));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.int(number));
        }
        b"map" => {
            reply.map(3);
            for number in 0..3 {
                reply.int(number);
                reply.boolean(number == 1);
            }
        }
        b"attrib" => {
            if reply.is_resp3() {
                reply.raw(b"|1\r\n$14\r\nkey-popularity\r\n*2\r\n$7\r\nkey:123\r\n:90\r\n");
            }
            reply.bulk_str("Some real reply following the attribute");
        }
        b"push" if !reply.is_resp3() => {
            return Err(CommandError::other("ERR RESP2 is not supported by this command"));
        }
        b"push" => {
            reply.push(2);
            reply.bulk_str("server-cpu-usage");
            reply.int(42);
            reply.bulk_str("Some real reply following the push reply");
        }
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"verbatim" => reply.verbatim("txt", "This is a verbatim\nstring"),
        _ => {
            return Err(CommandError::other(
                "ERR Wrong protocol type name. Please use one of the following: \
                 string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}

/// The double of DEBUG PROTOCOL: what tests of clients expect, not a circle's.
const DOUBLE_EXAMPLE: f64 = 3141.0 / 1000.0;
