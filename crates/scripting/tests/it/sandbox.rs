//! One script cannot change what the next one sees.

use crate::host::Session;

#[test]
fn nothing_that_a_script_does_reaches_the_next_one() {
    for attempt in [
        "rawset(_G, 'leak', 1)",
        "_G.leak = 1",
        "getmetatable(_G).__index = function() return 1 end",
        "getmetatable(_G).__index.leak = 1",
        "getmetatable(getmetatable(_G)).__newindex = nil",
        "rawset(getmetatable(_G), 'leak', 1)",
        "setmetatable(getmetatable(_G), {})",
        "getmetatable('').__index.leak = 1",
        "getmetatable('').leak = 1",
        "rawset(string, 'leak', 1)",
        "string.leak = 1",
        "redis.leak = 1",
        "rawset(redis, 'leak', 1)",
        "table.insert(redis, 'leak')",
        "table.insert(_G, 'leak')",
        "table.sort(redis)",
        "for k, v in pairs(_G) do if type(v) == 'table' then v.leak = 1 end end",
        "for k, v in pairs(_G) do if type(v) == 'table' then rawset(v, 'leak', 1) end end",
        "local k, v = next(_G) rawset(v, 'leak', 1)",
        "local real = ({pairs(redis)})[2] rawset(real, 'leak', 1)",
        "local t = setmetatable({}, {__index = _G, __newindex = _G}) t.leak = 1",
        "local t = setmetatable({}, {__newindex = redis}) t.leak = 1",
        "loadstring('leak = 1')()",
        "coroutine.wrap(function() leak = 1 end)()",
        "xpcall(function() leak = 1 end, function() rawset(_G, 'leak', 1) end)",
        "cjson.new().leak = 1",
        "local mt = getmetatable(cjson.decode('[]')) if mt then mt.leak = 1 end",
        "cjson.decode_array_with_array_mt(true) local mt = getmetatable(cjson.decode('[]')) if mt then mt.leak = 1 end",
        "collectgarbage('stop')",
        "string.gsub('x', 'x', getmetatable(_G))",
        "('').rep.leak = 1",
    ] {
        let mut session = Session::new();
        let attempted = session.eval(&format!("pcall(function() {attempt} end) {attempt}"));
        for check in [
            "return rawget(_G, 'leak') == nil",
            "return rawget(redis, 'leak') == nil and redis[1] == nil",
            "return pcall(function() return leak end) == false",
            "return string.leak == nil and ('').leak == nil and type(('x').rep) == 'function'",
            "return getmetatable('').leak == nil and rawget(getmetatable(_G), 'leak') == nil",
            "for k, v in pairs(_G) do if type(v) == 'table' and k ~= '_G' and v.leak then return false end end return true",
            "return getmetatable(_G).leak == nil",
        ] {
            assert_eq!(session.eval(check), r":1\r\n", "{attempt} ({attempted}), then {check}");
        }
    }
}

#[test]
fn keys_and_arguments_are_those_of_the_run() {
    let mut session = Session::new();
    let _ = session.run(b"KEYS[1] = 'x' KEYS.leak = 1 ARGV.leak = 1", &[b"a"], &[b"b"]);
    let (reply, _) =
        session.run(b"return {KEYS[1], tostring(KEYS.leak), tostring(ARGV.leak)}", &[b"c"], &[]);
    assert_eq!(reply.escape_ascii().to_string(), r"*3\r\n$1\r\nc\r\n$3\r\nnil\r\n$3\r\nnil\r\n");
}

#[test]
fn random_numbers_go_on_and_can_be_repeated() {
    let mut session = Session::new();
    let first = session.eval("return tostring(math.random())");
    assert_ne!(session.eval("return tostring(math.random())"), first);
    let seeded = "math.randomseed(7) return tostring(math.random())";
    assert_eq!(session.eval(seeded), session.eval(seeded));
}
