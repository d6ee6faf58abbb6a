//! What is told of a user makes one that may do the same: the words of ACL LIST as an aclfile and as a call of SETUSER,
//! and what ACL GETUSER tells, put together again. "The same" is asked call by call.
//!
//! The first byte of the input chooses the channels of new users; the rest are the rules of one user, with a NUL byte
//! between two. A rule that is refused is left out. The calls name what the rules name, so that they come near a pattern.

use acl::{ChannelDefault, ChannelUse, Roster, Selector, User, Users};
use command::table;

use crate::acl_rules::has_all_keys_as_pattern;

const NAME: &[u8] = b"u";

/// Rules of an input.
const WORDS_MAX: usize = 24;

/// Words that are tried as keys, as channels and as passwords, and how long each is at most.
const TRIED_MAX: usize = 20;
const TRIED_BYTES_MAX: usize = 64;

/// Calls, with the word that is tried as `K`.
const CALLS: [&str; 38] = [
    "get K",
    "set K v",
    "getdel K",
    "copy K a",
    "copy a K",
    "mget a K",
    "mset a 1 K 2",
    "rename K other",
    "lpush K x",
    "blmove K a left right 0",
    "sort K",
    "sort K by x get y",
    "sort K store a",
    "zunionstore K 2 a b",
    "xread streams K 0",
    "eval s 1 K",
    "eval_ro s 2 a K",
    "fcall f 1 K",
    "object freq K",
    "object help",
    "memory usage K",
    "migrate h 1 K 0 9",
    "touch K",
    "keys K",
    "scan 0",
    "flushall",
    "select 0",
    "select K",
    "config get K",
    "config set K v",
    "acl whoami",
    "client id",
    "debug sleep",
    "publish K m",
    "spublish K m",
    "subscribe a K",
    "psubscribe K",
    "logtail 0",
];

pub(crate) fn run(input: &[u8]) {
    let Some((&flags, rest)) = input.split_first() else { return };
    let default = if flags & 1 == 0 { ChannelDefault::Nothing } else { ChannelDefault::All };
    let words: Vec<&[u8]> = rest.split(|byte| *byte == 0).take(WORDS_MAX).collect();
    let mut users = Users::new(default);
    for word in &words {
        let _refused = users.set_user(NAME, &[word]);
    }
    let Some(user) = users.by_name(NAME) else { return };
    let line = [&b"user u "[..], &user.describe(), b"\n"].concat();
    let roster = Roster::parse(&line, "file", default);
    let mut of_file = Users::new(default);
    of_file.replace(roster.unwrap_or_else(|why| panic!("{why}: {}", line.escape_ascii())));
    let told = user.describe();
    let of_list = made(&told.split(|byte| *byte == b' ').collect::<Vec<_>>(), default);
    let rules = rules_of_getuser(user);
    let of_getuser = made(&rules.iter().map(Vec::as_slice).collect::<Vec<_>>(), default);
    let tried = tried(&words);
    for (again, how) in [(of_file, "file"), (of_list, "LIST"), (of_getuser, "GETUSER")] {
        let same = again.by_name(NAME).expect("it was made");
        compare(user, same, &tried, how);
        for password in &tried {
            let [may, may_again] =
                [&users, &again].map(|it| it.authenticate(NAME, password).is_some());
            assert_eq!(may, may_again, "{how}: a password of {}", told.escape_ascii());
        }
    }
}

/// Users with one that these words make.
fn made(words: &[&[u8]], default: ChannelDefault) -> Users {
    let mut users = Users::new(default);
    let set = users.set_user(NAME, words);
    set.unwrap_or_else(|why| panic!("{why}: {}", words.join(&b' ').escape_ascii()));
    users
}

/// Rules made of what ACL GETUSER tells: a caller has the fields, and not the line.
fn rules_of_getuser(user: &User) -> Vec<Vec<u8>> {
    let mut rules: Vec<Vec<u8>> = user.flags().map(|flag| flag.as_bytes().to_vec()).collect();
    rules.extend(user.passwords().map(|hash| format!("#{hash}").into_bytes()));
    rules.extend(rules_of_selector(user.root()));
    for selector in user.selectors() {
        let quoted: Vec<_> = rules_of_selector(selector).iter().map(|it| quoted(it)).collect();
        rules.push([b"(", &quoted.join(&b' ')[..], b")"].concat());
    }
    rules
}

fn rules_of_selector(selector: &Selector) -> Vec<Vec<u8>> {
    let mut rules = vec![b"resetchannels".to_vec()];
    for told in
        [selector.describe_keys(), selector.describe_channels(), selector.describe_commands()]
    {
        rules.extend(told.split(|byte| *byte == b' ').map(<[u8]>::to_vec));
    }
    rules.retain(|rule| !rule.is_empty());
    rules
}

fn quoted(rule: &[u8]) -> Vec<u8> {
    let mut text = vec![b'"'];
    for &byte in rule {
        if matches!(byte, b'"' | b'\\') {
            text.push(b'\\');
        }
        text.push(byte);
    }
    text.push(b'"');
    text
}

/// What the calls name: the words of the input without their signs, literally and with what a pattern stands for.
fn tried(words: &[&[u8]]) -> Vec<Vec<u8>> {
    let fixed: [&[u8]; 6] = [b"", b"a", b"app:1", b"*", b"x\"y)", b"\xff\x01 k"];
    let mut all: Vec<Vec<u8>> = fixed.iter().map(|it| it.to_vec()).collect();
    for word in words {
        let inside = word.split(|byte| matches!(byte, b'(' | b')' | b' '));
        for rule in inside.take(WORDS_MAX) {
            let sign = rule.iter().position(|byte| matches!(byte, b'~' | b'&' | b'>' | b'|'));
            let Some(name) = sign.map(|sign| &rule[sign + 1..]) else { continue };
            if name.len() > TRIED_BYTES_MAX {
                continue;
            }
            all.push(name.to_vec());
            all.push(name.iter().map(|&it| if it == b'*' { b'z' } else { it }).collect());
        }
    }
    all.truncate(TRIED_MAX);
    all
}

/// Both decide alike on every call.
fn compare(user: &User, again: &User, tried: &[Vec<u8>], how: &str) {
    let told = || format!("{how}: {}", user.describe().escape_ascii());
    assert_eq!(user.is_on(), again.is_on(), "{}", told());
    assert_eq!(user.needs_no_password(), again.needs_no_password(), "{}", told());
    // A pattern `*` matches no empty key, as in Redis, whose line for `%RW~*` says `~*`: all keys.
    let is_known = |word: &[u8]| word.is_empty() && has_all_keys_as_pattern(user);
    for word in tried.iter().filter(|word| !is_known(word)) {
        for call in CALLS {
            let call: Vec<&[u8]> = call
                .split(' ')
                .map(|it| if it == "K" { word.as_slice() } else { it.as_bytes() })
                .collect();
            let Ok(command) = table::resolve(&call) else { continue };
            let [decision, same] = [user, again].map(|it| it.check(command, &call));
            assert_eq!(decision, same, "{} of {}", call.join(&b' ').escape_ascii(), told());
            let [all, same] = [user, again].map(|it| it.may_read_all_keys(command, &call));
            assert_eq!(all, same, "all keys of {}", told());
        }
        for how in [ChannelUse::Channel, ChannelUse::Pattern] {
            let [may, same] = [user, again].map(|it| it.may_use_channel(word, how));
            assert_eq!(may, same, "{how:?} {} of {}", word.escape_ascii(), told());
        }
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let users: [&[&[u8]]; 10] = [
        &[b"on", b">secret", b"~app:*", b"+@all", b"-@admin", b"(~x +get)", b"<secret"],
        &[b"nopass", b"%R~*", b"%W~a", b"&*", b"+@read", b"-object|freq"],
        &[b"+select|0", b"+config|get", b"+@string", b"-set", b"%RW~*", b"~b"],
        &[b"(~a +@all -get)", b"(%W~* &news.* +@pubsub)", b"~\"x\\\"y\"", b"+mget"],
        &[b"allkeys", b"+sort", b"-@all", b"+sort_ro", b"&a?c", b"resetchannels", b"&[a-c]"],
        &[b"(%R~\"a)\" \"&x\\\"y\" +get)", b"(\"+set|a)\" ~'b')", b"clearselectors", b"(+@all)"],
        &[b"+@all", b"-eval", b"+fcall", b"%R~*", b"off", b"skip-sanitize-payload", b"resetpass"],
        &[b"+acl|whoami", b"+client", b"-client|id", b"+object", b"-object|help", b"~*"],
        &[b"(+@all ~*)", b"(&* +psubscribe)", b"(%R~a %W~a +copy)", b"+logtail", b"%R~*"],
        &[b"+@all", b"-flushall", b"-@dangerous", b"+keys", b"+flushall|async", b"%W~z", b"%R~z"],
    ];
    let texts = users.iter().enumerate();
    texts.map(|(at, words)| [&[u8::from(at % 2 == 1)], &words.join(&0)[..]].concat()).collect()
}
