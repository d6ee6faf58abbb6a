//! Random scripts, sent to redis-server and to Indelible: every reply and in the end every key must be the same.
//!
//! A script is a few statements of a list, whose letters become random values: commands on few keys, calls of the
//! libraries, tables, coroutines and errors that are caught. What each gives is put into a table that is returned.

use crate::kill::Random;
use crate::process::Program;
use crate::random_commands::{everything, index, shape_words};

/// Scripts of a run, and between two looks at all the data.
const SCRIPTS: u64 = 6000;
const SCRIPTS_A_LOOK: u64 = 500;

/// What each script begins with.
const HEAD: &str = "local r, v = {}, nil local function put(x) r[#r + 1] = x end \
                    local function try(f, ...) local ok, x = pcall(f, ...) return x end ";

/// Redis 7.0 ends when a table is raised that is no error.
const TAILS: &[&str] = &["return r", "return r", "return r", "return v", "error(type(v))"];

/// Commands whose replies Redis leaves unordered.
const UNORDERED: &[&str] =
    &["SMEMBERS", "SINTER", "SUNION", "SDIFF", "HKEYS", "HVALS", "KEYS", "HGETALL", "SORT"];

/// A letter that stands alone is: `C` a command with its arguments, `A` any value, `S` a text, `P` a pattern, `D` a text in
/// JSON or nearly, `F` a format of `struct`, `N` a number, `I` a place, `B` a number of bits.
#[rustfmt::skip]
const STATEMENTS: &[&str] = &[
    "v = redis.pcall(C)", "v = redis.pcall(C)", "put(redis.pcall(C))", "put(redis.pcall(C))",
    "local ok, e = pcall(redis.call, C) put(ok) put(e)",
    "for i = 1, B do v = redis.pcall(C) end put(v)",
    "if v then put(redis.pcall(C)) else put(redis.pcall(C)) end",
    "v = A put(v)", "v = {v, A} put(v)", "put(type(v))", "put(tostring(v == A))", "put(tostring(N / 8))",
    "v = cjson.encode({A, A, A}) put(v)", "v = try(cjson.encode, v) put(v)", "put(try(cjson.decode, 'D'))",
    "v = cmsgpack.pack(A, A) put(v)", "put(try(cmsgpack.unpack, v))",
    "put(try(struct.pack, 'F', I, I))", "put(try(struct.unpack, 'F', S))",
    "put(bit.tohex(bit.bxor(N, N)))", "put(bit.lshift(N, B) + bit.arshift(N, B) + bit.rol(N, B))",
    "put(try(string.format, '%5.2f %d %q %x', I, N, S, B))", "put((S):rep(B):sub(I, I))",
    "put((S):find(P)) put((S):match(P))", "put((S):gsub(P, S))", "for w in (S):gmatch(P) do put(w) end",
    "put((S):byte(I, I)) put((S):upper():reverse())", "put(tonumber(S))", "put(redis.sha1hex(S))",
    "put(math.floor(N / 7))", "put(try(function() return v[1] end))", "put(try(function() return #v .. S end))",
    "put(redis.error_reply(S))", "put(redis.status_reply(S))", "put(try(error, A))", "put(try(redis.call, A))",
    "put(#{A, A, A})", "put(select(-1, A, A))", "put(try(unpack, {A, A}))",
    "local t = {N, N, N} table.sort(t) put(t)",
    "local t = {S, S, S} table.sort(t, function(a, b) return a > b end) put(t)",
    "put(try(table.concat, {A, A}, S))", "put(try(table.concat, {A, N, S}, S, I, I))",
    "put(table.maxn({N, A, [B + 1] = N}))", "table.foreach({N, S}, function(k, x) put(x) end)",
    "put(table.foreachi({A, S}, function(i, x) return x end))", "put(try(table.foreach, {S}, rawequal))",
    "local w = coroutine.wrap(function(x) local y = coroutine.yield(x) error(y) end) \
     put(try(w, A)) put(try(w, A)) put(try(w))",
    "local c = coroutine.create(function(x) return coroutine.yield(x) end) \
     for i = 1, 3 do put(select(2, coroutine.resume(c, A))) end",
    "put(try(coroutine.wrap, A)) put(try(coroutine.resume, A)) put(try(coroutine.create, type))",
    "put(select(2, load(function() return nil end))) put(select(2, loadstring(S)))",
];

#[rustfmt::skip]
const VALUES: &[&str] = &[
    "v", "v", "N", "N", "S", "S", "true", "false", "nil", "{N, S}", "{S}", "{}", "{ok = S}", "{err = S}", "N / 4",
    r"'a\0b'",
];

#[rustfmt::skip]
const TEXTS: &[&str] = &["", "a", "key1", "x1 y2", "1.5", "[1,2]", "%s", "abcabc", "Zz-9"];

const PATTERNS: &[&str] =
    &["a", "%d+", "(.)(.)", "^%a*", "[^a]", "b-", "%s", "()", "%bab", "c$", "%f[%w]"];

#[rustfmt::skip]
const JSON: &[&str] = &[
    r#"{"a":[1,2,null]}"#, r#"[1,"x",true]"#, "[]", "{}", r#"{"k":1.5}"#, "nul", "[1", r#""\\u00e9""#, "1e3",
];

const FORMATS: &[&str] = &[">I4", "<i2", "b", "h", ">d", "s", "c3", "I2I2", "<l"];

fn one_of(random: &mut Random, all: &[&'static str]) -> &'static str {
    all[index(random, all.len())]
}

/// A command and its arguments, as texts of Lua.
fn command(random: &mut Random) -> String {
    loop {
        let words = shape_words(random);
        if !UNORDERED.contains(&words[0].as_str()) {
            let words: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
            return words.join(", ");
        }
    }
}

/// The template with its letters replaced.
fn filled(random: &mut Random, template: &str) -> String {
    let is_word =
        |letter: Option<&char>| letter.is_some_and(|it| it.is_alphanumeric() || *it == '_');
    let letters: Vec<char> = template.chars().collect();
    let mut out = String::new();
    for (at, letter) in letters.iter().enumerate() {
        let before = at.checked_sub(1).and_then(|at| letters.get(at));
        if is_word(before) || is_word(letters.get(at + 1)) {
            out.push(*letter);
            continue;
        }
        match letter {
            'C' => out.push_str(&command(random)),
            'A' => {
                let value = one_of(random, VALUES);
                out.push_str(&filled(random, value));
            }
            'S' => out.push_str(&format!("'{}'", one_of(random, TEXTS))),
            'P' => out.push_str(&format!("'{}'", one_of(random, PATTERNS))),
            'D' => out.push_str(one_of(random, JSON)),
            'F' => out.push_str(one_of(random, FORMATS)),
            'N' => out.push_str(&(random.below(2000).cast_signed() - 1000).to_string()),
            'I' => out.push_str(&(random.below(30).cast_signed() - 10).to_string()),
            'B' => out.push_str(&random.below(33).to_string()),
            other => out.push(*other),
        }
    }
    out
}

fn script(random: &mut Random) -> String {
    let mut source = HEAD.to_owned();
    for _ in 0..=random.below(7) {
        let statement = one_of(random, STATEMENTS);
        source.push_str(&filled(random, statement));
        source.push(' ');
    }
    source.push_str(one_of(random, TAILS));
    source
}

#[test]
fn random_scripts_get_the_same_replies() {
    let Some(redis) = Program::redis() else { return };
    let mut random = Random::from_environment();
    let shared = ["--proto-max-bulk-len", "1mb", "--enable-debug-command", "yes"];
    let redis = redis.start(&[&["--save", ""], &shared[..]].concat());
    let indelible = Program::indelible().start(&[&["--appendfsync", "no"], &shared[..]].concat());
    let mut sides = [redis.connect(), indelible.connect()];
    let mut values = 0;
    for number in 1..=SCRIPTS {
        let source = script(&mut random);
        let [expected, found] =
            sides.each_mut().map(|side| side.call(&["EVAL", &source, "0"]).unwrap());
        assert_eq!(found, expected, "script {number}: {source}");
        values += expected.elements().len();
        if number % SCRIPTS_A_LOOK == 0 {
            let [expected, found] = sides.each_mut().map(everything);
            assert_eq!(found, expected, "after {number} scripts");
        }
    }
    assert!(values > 5000, "only {values} values were compared");
}
