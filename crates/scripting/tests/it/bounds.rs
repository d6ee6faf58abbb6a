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

/// Thousands of arguments may be the same text, of which Lua has one.
#[test]
fn arguments_are_not_copied_past_a_limit() {
    let all = "local s = ('x'):rep(1000000) local t = {} for i = 1, 7000 do t[i] = s end ";
    let error = "the arguments of this redis lib call have 7000000004 bytes together: they may have 16777216; call it \
                 several times";
    for call in [
        "return redis.call('ping', unpack(t))",
        "return redis.pcall('ping', unpack(t))",
        "return redis.acl_check_cmd('ping', unpack(t))",
    ] {
        let mut session = small();
        let reply = session.eval(&format!("{all}{call}"));
        assert!(reply.starts_with(&format!("-ERR {error}")), "{call}: {reply}");
        assert!(session.keys.calls.is_empty(), "{call}");
    }
    let mut session = small();
    let fits = "local s = ('x'):rep(1000000) return #redis.call('echo', s)";
    assert_eq!(session.eval(fits), r":1000000\r\n");
    session.eval(&format!("{all} redis.log(redis.LOG_DEBUG, 'begin', unpack(t))"));
    let (_, line) = &session.keys.logged[0];
    assert!(line.len() < 70_000 && line.starts_with(b"begin xxx"), "{}", line.len());
    let end = String::from_utf8_lossy(&line[line.len() - 30..]).into_owned();
    assert!(end.ends_with("... and 6999934470 bytes more"), "{end}");
}

/// Memory is full when its stack must grow, before it runs and could raise an error.
#[test]
fn a_coroutine_that_finds_no_memory_for_its_arguments_is_an_error_of_the_script() {
    for resume in ["coroutine.resume(c, unpack(t))", "pcall(w, unpack(t))"] {
        let mut session = small();
        let reply = session.eval(&format!(
            "local t = {{}} for i = 1, 7000 do t[i] = i end
            local f = function(...) return select('#', ...) end
            local c, w = coroutine.create(f), coroutine.wrap(f)
            local size, kept, count = 13, nil, 0
            local function fill()
                while true do count = count + 1 kept = {{kept, ('y'):rep(2 ^ size) .. count}} end
            end
            local function fill_up() while true do kept = {{kept}} end end
            for round = 1, 2 do
                for to = 13, 4, -1 do size = to pcall(fill) end
                pcall(collectgarbage)
            end
            pcall(fill_up)
            redis.call('ping')
            local ok, n = {resume}
            kept = nil
            return n"
        ));
        assert_eq!(session.keys.calls.len(), 1, "{resume}: it has come so far: {reply}");
        let is_refused =
            reply.contains("not enough memory") || reply.contains("too many arguments");
        assert!(reply == r":7000\r\n" || is_refused, "{resume}: {reply}");
        assert_eq!(session.eval("return 1"), r":1\r\n", "{resume}");
    }
}

#[test]
fn the_stacks_of_coroutines_count() {
    for resume in ["coroutine.resume(c, unpack(t))", "coroutine.wrap(yield)(unpack(t))"] {
        let mut session = small();
        let reply = session.eval(&format!(
            "local t, kept = {{}}, {{}} for i = 1, 7900 do t[i] = i end
            local yield = function() coroutine.yield() end
            for i = 1, 20000 do kept[i] = coroutine.create(yield) local c = kept[i] {resume} end"
        ));
        let is_refused =
            reply.contains("not enough memory") || reply.contains("too many arguments");
        assert!(is_refused, "{resume}: {reply}");
        assert_eq!(session.eval("return 1"), r":1\r\n", "{resume}");
    }
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
