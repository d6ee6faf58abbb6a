//! A script that does not end by itself is ended, and the next one runs.

use std::panic::{AssertUnwindSafe, catch_unwind};

use scripting::{Ending, Options};

use crate::host::Session;

/// Runs a script that would never end, and checks that it was stopped, and nothing else was.
fn assert_stopped(script: &str) {
    let mut session = Session::new();
    session.keys.patience = Some(2);
    let (reply, ending) = session.run(script.as_bytes(), &[], &[]);
    let reply = String::from_utf8_lossy(&reply).into_owned();
    assert_eq!(ending, Ending::Stopped, "{script}: {reply}");
    assert!(reply.starts_with('-'), "{script}: {reply}");
    // Not asked again after it was stopped.
    assert_eq!(session.keys.interrupts, 3, "{script}");
    session.keys.patience = None;
    // The more memory is in use, the more often it is asked.
    session.eval("collectgarbage()");
    session.keys.interrupts = 0;
    assert_eq!(
        session.eval("local n = 0 for i = 1, 1000000 do n = n + i end return n"),
        r":500000500000\r\n"
    );
    // As often as before: two million instructions.
    assert!((18..=22).contains(&session.keys.interrupts), "{}", session.keys.interrupts);
}

#[test]
fn loops_are_stopped() {
    let mut session = Session::new();
    session.keys.patience = Some(2);
    assert_eq!(
        session.eval("\nwhile true do end"),
        "-ERR Script killed by user with SCRIPT KILL... script: \
         67d7e8e9b3a0a2f0f4b3a5ac9b1ab4d8b4b1dcf0, on @user_script:2.\\r\\n"
            .replace("67d7e8e9b3a0a2f0f4b3a5ac9b1ab4d8b4b1dcf0", &sha1("\nwhile true do end"))
    );
    assert_stopped("while true do end");
    assert_stopped("repeat until false");
    assert_stopped("local function f() return f() end return f()");
    assert_stopped("while true do redis.call('ping') end");
    assert_stopped("while true do local t = {} end");
    assert_stopped(
        "local t = setmetatable({}, {__index = function(t, k) return k end}) while true do local x = t.y end",
    );
}

fn sha1(script: &str) -> String {
    let id = scripting::ScriptId::of_source(script.as_bytes());
    String::from_utf8_lossy(id.as_bytes()).into_owned()
}

#[test]
fn a_stop_cannot_be_caught() {
    assert_stopped("while true do pcall(function() while true do end end) end");
    assert_stopped(
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
    );
    assert_stopped("local function f() pcall(f) while true do end end f()");
    assert_stopped(
        "while true do coroutine.resume(coroutine.create(function() while true do end end)) end",
    );
    assert_stopped(
        "while true do local f = coroutine.wrap(function() while true do coroutine.yield() end end) pcall(f) end",
    );
    assert_stopped(
        "local function level(n) return function() while true do local c = coroutine.create(n > 0 and level(n - 1) \
         or function() while true do end end) coroutine.resume(c) end end end level(5)()",
    );
    assert_stopped("while true do ('x'):gsub('x', function() while true do end end) end");
    assert_stopped(
        "while true do pcall(string.gsub, 'x', 'x', function() while true do end end) end",
    );
    assert_stopped("while true do load(function() while true do end end) end");
    assert_stopped("table.sort({1, 2, 3, 4}, function() while true do end end)");
    assert_stopped("table.foreach({1, 2}, function() while true do end end)");
    assert_stopped("while true do pcall(coroutine.wrap(function() while true do end end)) end");
    assert_stopped("while true do load(coroutine.wrap(function() while true do end end)) end");
    assert_stopped(
        "local function f(n) while true do load(coroutine.wrap(function() if n == 0 then while true do end end \
         f(n - 1) end)) end end f(3)",
    );
}

/// However the work is divided: what begins anew does not begin to count anew.
#[test]
fn work_in_pieces_is_stopped() {
    // A tree of coroutines none of which executes as many instructions as the host is asked after.
    assert_stopped(
        "local function f(n) return function() if n == 0 then for i = 1, 30000 do end else for i = 1, 5000 do \
         coroutine.wrap(f(n - 1))() end end end end f(3)()",
    );
    assert_stopped("while true do coroutine.wrap(function() end)() end");
    assert_stopped(
        "while true do coroutine.resume(coroutine.create(function() for i = 1, 900 do end end)) end",
    );
    assert_stopped(
        "local c = coroutine.wrap(function() while true do coroutine.yield() end end) while true do c() end",
    );
    // Functions that take few steps each.
    assert_stopped("while true do ('x'):rep(2000):find('a*b') end");
    // Loops of C over functions of C.
    assert_stopped("load(collectgarbage)");
    assert_stopped("load(gcinfo)");
    assert_stopped("load(math.random)");
    assert_stopped("while true do load(gcinfo) end");
    assert_stopped("(('collect'):rep(100000)):gsub('collect', collectgarbage)");
    assert_stopped(
        "local t = {} for i = 1, 300000 do t[i] = {} end while true do table.foreachi(t, redis.debug) end",
    );
}

/// One instruction may copy hundreds of megabytes: so bytes count, and 100,000 such are not waited for.
#[test]
fn few_instructions_that_take_long_are_many() {
    let asked = |script: &str| {
        let mut session = Session::new();
        session.eval(script);
        session.keys.interrupts
    };
    let joined = asked("local s = ('x'):rep(4000000) for i = 1, 50 do local y = s .. i end");
    assert!((50..=70).contains(&joined), "{joined}");
    let collected = asked(
        "local t = {} for i = 1, 50000 do t[i] = {} end for i = 1, 20 do collectgarbage() end",
    );
    assert!((20..=40).contains(&collected), "{collected}");
    let compared = asked(
        "local a, b = ('x'):rep(32000000) .. 'a', ('x'):rep(32000000) .. 'b' for i = 1, 30000 do local y = #a end",
    );
    assert!(compared >= 30, "an instruction may read all that there is: {compared}");
    let read = asked("local s = ('x'):rep(8000000) for i = 1, 50 do s:find('y', 1, true) end");
    assert!((50..=60).contains(&read), "{read}");
    let begun =
        asked("for i = 1, 2000 do coroutine.wrap(function() for j = 1, 900 do end end)() end");
    assert!((18..=30).contains(&begun), "what each coroutine may do is counted: {begun}");
    let small = asked("for i = 1, 1000 do local y = 'x' .. i end");
    assert_eq!(small, 0);
}

#[test]
fn what_is_returned_is_written_by_a_script_that_can_be_stopped() {
    assert_stopped("local t = {} for i = 1, 40 do t = {t, t} end return t");
    assert_stopped("local t = {1} for i = 1, 40 do t = {map = {t, t}} end return t");
    let mut session = Session::new();
    session.keys.patience = Some(0);
    let (reply, ending) =
        session.run(b"local t = {} for i = 1, 16 do t = {t, t} end return t", &[], &[]);
    assert_eq!(ending, Ending::Stopped);
    let reply = String::from_utf8_lossy(&reply).into_owned();
    assert_eq!(reply, "-ERR Script killed by user with SCRIPT KILL...\r\n");
}

#[test]
fn functions_that_work_for_long_are_stopped() {
    assert_stopped("return ('a'):rep(100):find(('a*'):rep(30) .. 'b')");
    assert_stopped("return ('a'):rep(100):match(('a-'):rep(30) .. 'b')");
    assert_stopped("return ('a'):rep(100):gsub(('a*'):rep(30) .. 'b', '')");
    assert_stopped("for _ in ('a'):rep(100):gmatch(('a*'):rep(30) .. 'b') do end");
    assert_stopped("table.insert({}, -2000000000, 1)");
    assert_stopped("local t = {} for i = 1, 100 do t[i] = i end while true do table.sort(t) end");
    assert_stopped("local t = {} for i = 1, 40 do t = {t, t} end return cjson.encode(t)");
    assert_stopped(
        "local t = {} for i = 1, 15 do t = {t, t, t, t, t, t, t, t} end return cmsgpack.pack(t)",
    );
}

#[test]
fn a_panic_of_the_server_goes_on_behind_the_script() {
    let mut session = Session::new();
    for script in ["redis.call('panic')", "pcall(redis.call, 'panic') return 1"] {
        let panic = catch_unwind(AssertUnwindSafe(|| session.eval(script)));
        let panic = panic.expect_err("the panic arrives");
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"as the script wants"));
        assert_eq!(session.eval("return 1"), r":1\r\n", "the next script runs");
    }
}

#[test]
fn the_host_is_asked_as_often_as_it_wants() {
    let asked = |every| {
        let mut session = Session::with(Options { interrupt_every: every, ..Options::default() });
        session.eval("for i = 1, 1000000 do end");
        session.keys.interrupts
    };
    assert_eq!(asked(100_000), 10);
    assert_eq!(asked(1_000), 1000);
}
