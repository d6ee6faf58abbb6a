//! A server of a few commands, which is enough to see what scripts do.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use resp::{Protocol, Writer};
use scripting::{Ending, Host, Interrupt, Level, Options, Origin, Permission, Scripts};

#[derive(Debug)]
pub(crate) enum Value {
    Text(Vec<u8>),
    List(Vec<Vec<u8>>),
    Hash(BTreeMap<Vec<u8>, Vec<u8>>),
    Set(BTreeSet<Vec<u8>>),
}

/// Keys and values, and what scripts have told.
#[derive(Debug, Default)]
pub(crate) struct Keys {
    pub(crate) values: BTreeMap<Vec<u8>, Value>,
    pub(crate) calls: Vec<Vec<Vec<u8>>>,
    pub(crate) logged: Vec<(Level, Vec<u8>)>,
    /// How often a script may go on; for ever if there is none.
    pub(crate) patience: Option<u32>,
    pub(crate) interrupts: u32,
    /// What `raw` replies.
    pub(crate) raw: Vec<u8>,
}

impl Host for Keys {
    fn call(&mut self, arguments: &[&[u8]], reply: &mut Writer) {
        self.calls.push(arguments.iter().map(|argument| argument.to_vec()).collect());
        let command = arguments[0].to_ascii_lowercase();
        match (&command[..], &arguments[1..]) {
            (b"raw", []) => reply.raw(&self.raw),
            (b"panic", []) => panic!("as the script wants"),
            (b"ping", []) => reply.simple("PONG"),
            (b"echo", [text]) => reply.bulk(text),
            (b"set", [key, text]) => {
                self.values.insert(key.to_vec(), Value::Text(text.to_vec()));
                reply.ok();
            }
            (b"get", [key]) => match self.values.get(*key) {
                Some(Value::Text(text)) => reply.bulk(text),
                Some(_) => wrong_type(reply),
                None => reply.null(),
            },
            (b"mget", keys) => {
                reply.array(keys.len());
                for key in keys {
                    match self.values.get(*key) {
                        Some(Value::Text(text)) => reply.bulk(text),
                        _ => reply.null(),
                    }
                }
            }
            (b"incr", [key]) => self.incr(key, reply),
            (b"rpush", [key, items @ ..]) => {
                let list = self.values.entry(key.to_vec()).or_insert(Value::List(Vec::new()));
                match list {
                    Value::List(list) => {
                        list.extend(items.iter().map(|item| item.to_vec()));
                        reply.count(list.len());
                    }
                    _ => wrong_type(reply),
                }
            }
            (b"lrange", [key, b"0", b"-1"]) => match self.values.get(*key) {
                Some(Value::List(list)) => {
                    reply.array(list.len());
                    list.iter().for_each(|item| reply.bulk(item));
                }
                Some(_) => wrong_type(reply),
                None => reply.array(0),
            },
            (b"hset", [key, field, text]) => {
                let hash = self.values.entry(key.to_vec()).or_insert(Value::Hash(BTreeMap::new()));
                match hash {
                    Value::Hash(hash) => {
                        let old = hash.insert(field.to_vec(), text.to_vec());
                        reply.count(usize::from(old.is_none()));
                    }
                    _ => wrong_type(reply),
                }
            }
            (b"hgetall", [key]) => match self.values.get(*key) {
                Some(Value::Hash(hash)) => {
                    reply.map(hash.len());
                    for (field, text) in hash {
                        reply.bulk(field);
                        reply.bulk(text);
                    }
                }
                _ => reply.map(0),
            },
            (b"sadd", [key, items @ ..]) => {
                let set = self.values.entry(key.to_vec()).or_insert(Value::Set(BTreeSet::new()));
                match set {
                    Value::Set(set) => {
                        let new = items.iter().filter(|item| set.insert(item.to_vec())).count();
                        reply.count(new);
                    }
                    _ => wrong_type(reply),
                }
            }
            (b"smembers", [key]) => match self.values.get(*key) {
                Some(Value::Set(set)) => {
                    reply.set(set.len());
                    set.iter().for_each(|item| reply.bulk(item));
                }
                _ => reply.set(0),
            },
            (b"get" | b"set" | b"incr" | b"echo", _) => {
                reply.error("ERR Wrong number of args calling Redis command from script");
            }
            _ => reply.error("ERR Unknown Redis command called from script"),
        }
    }

    fn log(&mut self, level: Level, line: &[u8]) {
        self.logged.push((level, line.to_vec()));
    }

    fn permission(&mut self, arguments: &[&[u8]]) -> Permission {
        match arguments[0].to_ascii_lowercase().as_slice() {
            b"get" | b"set" => Permission::Granted,
            b"flushall" => Permission::Denied,
            _ => Permission::UnknownCommand,
        }
    }

    fn interrupt(&mut self) -> Interrupt {
        self.interrupts += 1;
        match self.patience {
            Some(patience) if self.interrupts > patience => Interrupt::Stop,
            _ => Interrupt::Continue,
        }
    }

    fn clock(&mut self) -> Duration {
        Duration::from_millis(1500)
    }
}

impl Keys {
    fn incr(&mut self, key: &[u8], reply: &mut Writer) {
        let value = match self.values.get(key) {
            Some(Value::Text(text)) => String::from_utf8_lossy(text).parse::<i64>().ok(),
            Some(_) => return wrong_type(reply),
            None => Some(0),
        };
        let Some(value) = value else {
            return reply.error("ERR value is not an integer or out of range");
        };
        let text = (value + 1).to_string().into_bytes();
        self.values.insert(key.to_vec(), Value::Text(text));
        reply.int(value + 1);
    }
}

fn wrong_type(reply: &mut Writer) {
    reply.error("WRONGTYPE Operation against a key holding the wrong kind of value");
}

/// Scripts and the server that they call.
pub(crate) struct Session {
    pub(crate) scripts: Scripts,
    pub(crate) keys: Keys,
    pub(crate) protocol: Protocol,
}

impl Session {
    pub(crate) fn new() -> Self {
        Self::with(Options::default())
    }

    pub(crate) fn with(options: Options) -> Self {
        Self { scripts: Scripts::new(options), keys: Keys::default(), protocol: Protocol::Resp2 }
    }

    /// EVAL: the reply and how it ended.
    pub(crate) fn run(
        &mut self,
        script: &[u8],
        keys: &[&[u8]],
        arguments: &[&[u8]],
    ) -> (Vec<u8>, Ending) {
        let mut out = Writer::new(self.protocol);
        let ending = match self.scripts.load(script, Origin::Eval) {
            Ok(script) => self.scripts.run(script, keys, arguments, &mut self.keys, &mut out),
            Err(error) => {
                out.error(&format!("ERR {error}"));
                Ending::Failed { is_counted: false }
            }
        };
        (out.take(), ending)
    }

    /// The reply of a script, as text.
    pub(crate) fn eval(&mut self, script: &str) -> String {
        self.eval_with(script, &[])
    }

    pub(crate) fn eval_with(&mut self, script: &str, arguments: &[&[u8]]) -> String {
        let (reply, _) = self.run(script.as_bytes(), &[], arguments);
        reply.escape_ascii().to_string()
    }
}
