//! The functions of `redis`, and those that need the host: `math.random` and `os.clock`.

use std::borrow::Cow;

use resp::Protocol;
use sha1::{Digest, Sha1};

use crate::entry::{Entry, Raise, Results};
use crate::frame::{Frame, Kind};
use crate::host::{Interrupt, Level, Permission};
use crate::machine::{Options, REPLY_KEPT_BYTES, Run};
use crate::number::shortest;
use crate::random::Random;
use crate::registration::register_function;
use crate::sandbox::{Api, set_functions};
use crate::to_lua::push_reply;

const CALLS: [(&str, Entry); 7] = [
    ("call", Entry::of(|frame| call(frame, true))),
    ("pcall", Entry::of(|frame| call(frame, false))),
    ("setresp", Entry::of(setresp)),
    ("sha1hex", Entry::of(sha1hex)),
    ("error_reply", Entry::of(error_reply)),
    ("status_reply", Entry::of(status_reply)),
    ("acl_check_cmd", Entry::of(acl_check_cmd)),
];

/// Only in scripts: what is left of replication of whole scripts, and of the debugger.
const SCRIPTS_ONLY: [(&str, Entry); 3] = [
    ("replicate_commands", Entry::of(|frame| Ok(push_true(frame, true)))),
    ("breakpoint", Entry::of(|frame| Ok(push_true(frame, false)))),
    ("debug", Entry::of(|_| Ok(0))),
];

/// What of `math` is not Lua's own.
pub(crate) const MATH: [(&str, Entry); 2] =
    [("random", Entry::of(random)), ("randomseed", Entry::of(randomseed))];

/// All of `os`.
pub(crate) const CLOCK: [(&str, Entry); 1] = [("clock", Entry::of(clock))];

const LEVELS: [(&str, Level); 4] = [
    ("LOG_DEBUG", Level::Debug),
    ("LOG_VERBOSE", Level::Verbose),
    ("LOG_NOTICE", Level::Notice),
    ("LOG_WARNING", Level::Warning),
];

/// To the append-only file, and to replicas.
const REPLICATION: [(&str, u8); 5] =
    [("REPL_NONE", 0), ("REPL_AOF", 1), ("REPL_SLAVE", 2), ("REPL_REPLICA", 2), ("REPL_ALL", 3)];

/// Arguments of a command that need no memory of their own.
const ARGUMENTS_INLINE: usize = 16;

/// How long a line of `redis.log` may be: the rest of it is left out.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Pushes the table `redis`.
pub(crate) fn push_library(frame: &mut Frame<'_>, options: Options, api: Api) {
    frame.push_table(0, 32);
    let at = frame.top();
    set_functions(frame, at, &CALLS);
    set_functions(frame, at, &[("set_repl", Entry::of(set_repl))]);
    if api == Api::Scripts {
        set_functions(frame, at, &SCRIPTS_ONLY);
    }
    add_log(frame, options);
    for (name, flags) in REPLICATION {
        frame.push_integer(i64::from(flags));
        frame.set_field(at, name);
    }
}

/// Pushes the table `redis` that a library has while it is loaded.
pub(crate) fn push_load_library(frame: &mut Frame<'_>, options: Options) {
    frame.push_table(0, 16);
    let at = frame.top();
    set_functions(frame, at, &[("register_function", Entry::of(register_function))]);
    add_log(frame, options);
}

fn add_log(frame: &mut Frame<'_>, options: Options) {
    let at = frame.top();
    set_functions(frame, at, &[("log", Entry::of(log))]);
    for (number, (name, _)) in (0..).zip(LEVELS) {
        frame.push_integer(number);
        frame.set_field(at, name);
    }
    let (major, minor, patch) = options.version;
    frame.push_bytes(format!("{major}.{minor}.{patch}").as_bytes());
    frame.set_field(at, "REDIS_VERSION");
    frame.push_integer(i64::from(major) << 16 | i64::from(minor) << 8 | i64::from(patch));
    frame.set_field(at, "REDIS_VERSION_NUM");
}

fn push_true(frame: &mut Frame<'_>, value: bool) -> i32 {
    frame.push_boolean(value);
    1
}

/// What runs, unless a library is being loaded.
fn running<'f>(
    frame: &'f mut Frame<'_>,
    name: &'static str,
) -> Result<&'f mut Run<'static>, Missing> {
    match frame.run() {
        Some(run) if run.registered.is_none() => Ok(run),
        _ => Err(Missing(name)),
    }
}

/// This function is only for running scripts.
struct Missing(&'static str);

impl Missing {
    fn text(&self) -> String {
        format!("{} can only be called inside a script invocation", self.0)
    }
}

impl From<Missing> for Raise {
    fn from(missing: Missing) -> Self {
        Self::reply(missing.text())
    }
}

/// Executes a command. With `raises`, its error is raised, and returned otherwise.
fn call(frame: &mut Frame<'_>, raises: bool) -> Results {
    running(frame, "redis.call/pcall")?;
    let reply = with_arguments(frame, |frame, arguments| {
        let run = running(frame, "redis.call/pcall")?;
        let mut reply = std::mem::take(&mut run.reply);
        reply.set_protocol(run.protocol);
        run.host.call(arguments, &mut reply);
        Ok(reply)
    });
    let mut reply = match reply {
        Ok(reply) => reply,
        // The arguments are wrong: an error like one of a command.
        Err(Raise::Reply(text)) if !raises => {
            frame.push_error(text.as_bytes());
            return Ok(1);
        }
        Err(raise) => return Err(raise),
    };
    let is_stopped = frame.run().is_some_and(|run| run.host.is_stopped());
    if is_stopped && frame.interrupt() == Interrupt::Stop {
        return Err(Raise::Stop);
    }
    frame.check_room(reply.len())?;
    let mut slices = [std::io::IoSlice::new(&[])];
    let (_, len) = reply.slices(0, reply.len(), &mut slices);
    let whole =
        if len == reply.len() { Cow::Borrowed(&slices[0][..]) } else { Cow::Owned(reply.to_vec()) };
    push_reply(frame, &whole)?;
    let is_error = whole.first() == Some(&b'-');
    drop(whole);
    reply.reset(REPLY_KEPT_BYTES);
    if let Some(run) = frame.run() {
        run.reply = reply;
    }
    if raises && is_error { Err(Raise::Value) } else { Ok(1) }
}

/// Calls `act` with the arguments as bytes. Numbers are written as Redis writes them. All of them together may be as long
/// as Lua may have memory: thousands may be the same text, and each is copied.
fn with_arguments<'l, T>(
    frame: &mut Frame<'l>,
    act: impl FnOnce(&mut Frame<'l>, &[&[u8]]) -> Result<T, Raise>,
) -> Result<T, Raise> {
    let count = usize::try_from(frame.arguments()).unwrap_or_default();
    if count == 0 {
        return Err(Raise::reply("Please specify at least one argument for this redis lib call"));
    }
    // The texts of numbers, one after the other, each with its end.
    let mut numbers = Vec::new();
    let mut ends = Vec::new();
    let mut inline = [&[][..]; ARGUMENTS_INLINE];
    let mut many = Vec::new();
    let arguments: &mut [&[u8]] = if count <= ARGUMENTS_INLINE {
        &mut inline[..count]
    } else {
        many.resize(count, &[][..]);
        &mut many
    };
    let mut bytes = 0;
    for (argument, number) in arguments.iter_mut().zip(1..) {
        match frame.kind(number) {
            Kind::Number => {
                shortest(frame.number(number).unwrap_or_default(), &mut numbers);
                ends.push((number, numbers.len()));
            }
            Kind::String => {
                *argument = frame.check_text(number)?;
                bytes += argument.len();
            }
            _ => {
                return Err(Raise::reply(
                    "Lua redis lib command arguments must be strings or integers",
                ));
            }
        }
    }
    if bytes > frame.bytes_max() {
        return Err(Raise::reply(format!(
            "the arguments of this redis lib call have {bytes} bytes together: they may have {}; call it several times",
            frame.bytes_max()
        )));
    }
    let mut start = 0;
    for (number, end) in ends {
        arguments[usize::try_from(number - 1).unwrap_or_default()] = &numbers[start..end];
        start = end;
    }
    act(frame, arguments)
}

fn acl_check_cmd(frame: &mut Frame<'_>) -> Results {
    running(frame, "redis.acl_check_cmd")?;
    let permission = with_arguments(frame, |frame, arguments| {
        Ok(running(frame, "redis.acl_check_cmd")?.host.permission(arguments))
    })?;
    match permission {
        Permission::Granted => frame.push_boolean(true),
        Permission::Denied => frame.push_boolean(false),
        Permission::UnknownCommand => {
            return Err(Raise::reply("Invalid command passed to redis.acl_check_cmd()"));
        }
    }
    Ok(1)
}

fn setresp(frame: &mut Frame<'_>) -> Results {
    running(frame, "redis.setresp")?;
    if frame.arguments() != 1 {
        return Err(Raise::reply("redis.setresp() requires one argument."));
    }
    let protocol = match frame.number(1) {
        Some(number) if (2.0..3.0).contains(&number) => Protocol::Resp2,
        Some(number) if (3.0..4.0).contains(&number) => Protocol::Resp3,
        _ => return Err(Raise::reply("RESP version must be 2 or 3.")),
    };
    running(frame, "redis.setresp")?.protocol = protocol;
    Ok(0)
}

/// `redis.set_repl`. All effects of a script are one block, so this is accepted and does nothing.
fn set_repl(frame: &mut Frame<'_>) -> Results {
    running(frame, "redis.set_repl")?;
    if frame.arguments() != 1 {
        return Err(Raise::reply("redis.set_repl() requires one argument."));
    }
    let flags = frame.number(1).unwrap_or_default();
    if (0.0..4.0).contains(&flags) {
        return Ok(0);
    }
    Err(Raise::reply(
        "Invalid replication flags. Use REPL_AOF, REPL_REPLICA, REPL_ALL or REPL_NONE.",
    ))
}

/// SHA-1 in lower-case hexadecimal.
pub(crate) fn sha1_hex(bytes: &[u8]) -> [u8; 40] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut hex = [0; 40];
    for (pair, byte) in hex.as_chunks_mut::<2>().0.iter_mut().zip(Sha1::digest(bytes)) {
        *pair = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    }
    hex
}

fn sha1hex(frame: &mut Frame<'_>) -> Results {
    if frame.arguments() != 1 {
        return Err(Raise::reply("wrong number of arguments"));
    }
    let hex = sha1_hex(frame.argument_text(1).unwrap_or_default());
    frame.push_bytes(&hex);
    Ok(1)
}

const WRONG_TYPE: &[u8] = b"wrong number or type of arguments";

fn error_reply(frame: &mut Frame<'_>) -> Results {
    let given = frame.argument_if_only_text();
    frame.check_room(given.map_or(0, <[u8]>::len).saturating_mul(3))?;
    let line: Cow<'_, [u8]> = match given {
        Some(line) if line.starts_with(b"-") => Cow::Borrowed(line),
        Some(line) => Cow::Owned([b"-", line].concat()),
        None => Cow::Borrowed(WRONG_TYPE),
    };
    frame.push_error(&line);
    Ok(1)
}

fn status_reply(frame: &mut Frame<'_>) -> Results {
    if frame.argument_if_only_text().is_none() {
        frame.push_error(WRONG_TYPE);
        return Ok(1);
    }
    frame.push_table(0, 1);
    frame.push_copy(1);
    frame.set_field(-2, "ok");
    Ok(1)
}

fn log(frame: &mut Frame<'_>) -> Results {
    if frame.arguments() < 2 {
        return Err(Raise::reply("redis.log() requires two arguments or more."));
    }
    let Some(number) = frame.number(1) else {
        return Err(Raise::reply("First argument must be a number (log level)."));
    };
    let level = LEVELS.iter().zip(0_u8..).find(|(_, at)| f64::from(*at) == number.trunc());
    let Some(((_, level), _)) = level else {
        return Err(Raise::reply("Invalid log level."));
    };
    let (mut line, mut left_out) = (Vec::new(), 0);
    for number in 2..=frame.arguments() {
        if let Some(text) = frame.argument_text(number) {
            if number > 2 && line.len() < LINE_BYTES_MAX {
                line.push(b' ');
            }
            let room = LINE_BYTES_MAX.saturating_sub(line.len()).min(text.len());
            line.extend_from_slice(&text[..room]);
            left_out += text.len() - room;
        }
    }
    if left_out > 0 {
        line.extend_from_slice(format!("... and {left_out} bytes more").as_bytes());
    }
    if let Some(run) = frame.run() {
        run.host.log(*level, &line);
    }
    Ok(0)
}

fn random(frame: &mut Frame<'_>) -> Results {
    let run = running(frame, "math.random").map_err(|missing| Raise::text(missing.text()))?;
    let fraction = run.random.fraction();
    let (low, high) = match frame.arguments() {
        0 => {
            frame.push_number(fraction);
            return Ok(1);
        }
        1 => (1, i64::from(frame.check_int(1)?)),
        2 => (i64::from(frame.check_int(1)?), i64::from(frame.check_int(2)?)),
        _ => return Err(Raise::text("wrong number of arguments")),
    };
    if low > high {
        return Err(Raise::argument(frame.arguments(), "interval is empty"));
    }
    #[expect(clippy::cast_precision_loss, reason = "33 bits")]
    let value = (fraction * (high - low + 1) as f64).floor() + low as f64;
    frame.push_number(value);
    Ok(1)
}

fn randomseed(frame: &mut Frame<'_>) -> Results {
    running(frame, "math.randomseed").map_err(|missing| Raise::text(missing.text()))?;
    let seed = frame.check_int(1)?;
    if let Some(run) = frame.run() {
        run.random = Random::of_seed(i64::from(seed));
    }
    Ok(0)
}

fn clock(frame: &mut Frame<'_>) -> Results {
    let seconds = frame.run().map_or(0.0, |run| run.host.clock().as_secs_f64());
    frame.push_number(seconds);
    Ok(1)
}
