//! No script costs more than its limit, whatever it does.

use resp::Writer;
use scripting::{Ending, Options, Origin};

use crate::host::{Keys, Session};

const MEMORY_BYTES: usize = 16 << 20;

fn small() -> Session {
    Session::with(Options { memory_bytes_max: MEMORY_BYTES, ..Options::default() })
}

/// Runs a script that needs too much, and checks that it fails and that the next one has room.
fn assert_refused(script: &str, text: &str) {
    let mut session = small();
    let reply = session.eval(script);
    assert!(reply.starts_with('-') && reply.contains(text), "{script}: {reply}");
    assert!(session.scripts.machine_bytes() < MEMORY_BYTES / 2, "{script}: garbage stays");
    assert_eq!(session.eval("return #('x'):rep(1000000)"), r":1000000\r\n", "{script}");
}

#[test]
fn memory_has_a_limit() {
    for script in [
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "local t = {} for i = 1, 1e9 do t[i] = {} end",
        "local s = 'x' while true do s = s .. s end",
        "return ('x'):rep(2^30)",
        "return ('x'):rep(2^31 - 1)",
        "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end",
        "local s = ('x'):rep(1000000) local t = {} for i = 1, 1000 do t[i] = s end return table.concat(t)",
        "local s = ('x'):rep(1000000) return s:gsub('x', ('y'):rep(1000))",
        "local s = ('x'):rep(1000000) return s:gsub('x', function() return ('y'):rep(1000) end)",
        "local s = ('\\1'):rep(1000000) local t = {} for i = 1, 10 do t[i] = s end return cjson.encode(t)",
        "local s = ('x'):rep(1000000) local t = {} for i = 1, 40 do t[i] = s end return cmsgpack.pack(t)",
        "return cjson.decode('[' .. ('[],'):rep(1000000) .. '1]')",
        "return cmsgpack.unpack('\\221\\0\\16\\0\\0' .. ('\\144'):rep(1048576))",
        "return struct.pack('i4c0', 1, ('x'):rep(9000000))",
        "local t = {} for i = 1, 200 do t[i] = coroutine.create(function() local function f() return 1 + f() end f() end) coroutine.resume(t[i]) end",
        "return load(function() return 'local x = 1 ' end)",
        "assert(loadstring(('f() '):rep(1000000)))",
    ] {
        assert_refused(script, "not enough memory");
    }
}

#[test]
fn memory_that_is_refused_can_be_caught() {
    let mut session = small();
    assert_eq!(
        session.eval("local ok, e = pcall(function() local s = 'x' while true do s = s .. s end end) return e"),
        r"$17\r\nnot enough memory\r\n"
    );
}

#[test]
fn recursion_has_a_limit() {
    for (script, text) in [
        ("local function f() return 1 + f() end return f()", "stack overflow"),
        (
            "local t = {} t = setmetatable(t, {__index = function(t, k) return t[k] end}) return t.x",
            "C stack overflow",
        ),
        ("local function f() return pcall(f) end local a, b = f() error(tostring(b))", ""),
        ("local function f() return (('x'):gsub('x', f)) end return f()", "C stack overflow"),
        ("local function f() coroutine.wrap(f)() end f()", "C stack overflow"),
        ("local function f() return load(f) end return f()", ""),
        ("return loadstring(('('):rep(1000) .. '1' .. (')'):rep(1000))()", ""),
        ("return ('a'):rep(100000):find(('a?'):rep(100000))", "pattern too complex"),
        ("return ('a'):rep(100000):find(('(a'):rep(100000))", "too many captures"),
        ("return cjson.decode(('['):rep(100000))", "Found too many nested data structures (1001)"),
        (
            "cjson.decode_max_depth(1000000) return cjson.decode(('['):rep(100000))",
            "Found too many nested data structures",
        ),
        (
            "cjson.encode_max_depth(1000000) local t = {} for i = 1, 100000 do t = {t} end return cjson.encode(t)",
            "excessive nesting",
        ),
        ("return cmsgpack.unpack(('\\145'):rep(100000))", "stack overflow"),
        ("local t = {} t[1] = t return t", ""),
        ("return {unpack({}, 1, 100000)}", "too many results to unpack"),
    ] {
        let mut session = small();
        let reply = session.eval(script);
        assert!(reply.contains(text), "{script}: {reply}");
        assert_eq!(session.eval("return 1"), r":1\r\n", "{script}");
    }
}

#[test]
fn a_table_in_itself_ends_with_an_error_in_the_reply() {
    for script in [
        "local t = {} t[1] = t return t",
        "local t = {map = {}} t.map.a = t return t",
        "local t = {set = {}} t.set[t] = true return t",
    ] {
        let reply = small().eval(script);
        assert!(reply.contains(r"-ERR reached lua stack limit\r\n"), "{script}");
    }
}

#[test]
fn a_reply_has_the_limit_of_its_writer() {
    let mut session = small();
    let source =
        b"local s = ('x'):rep(1000000) local t = {} for i = 1, 100000 do t[i] = s end return t";
    let script = session.scripts.load(source, Origin::Eval).expect("it is Lua");
    let mut out = Writer::default();
    out.limit(1 << 20);
    let ending = session.scripts.run(script, &[], &[], &mut Keys::default(), &mut out);
    assert_eq!(ending, Ending::Returned);
    assert!(out.is_over());
}

#[test]
fn many_runs_leave_nothing_behind() {
    let mut session = small();
    let bytes = |session: &Session| session.scripts.machine_bytes();
    session.eval("return redis.call('set', 'a', 'b')");
    let before = bytes(&session);
    for number in 0..20_000 {
        let argument = number.to_string();
        session.eval_with(
            "local t = {} for i = 1, 10 do t[i] = ARGV[1] .. i end return redis.call('echo', t[1])",
            &[argument.as_bytes()],
        );
    }
    session.eval("collectgarbage()");
    assert!(bytes(&session) < before + (64 << 10), "{} then {}", before, bytes(&session));
}
