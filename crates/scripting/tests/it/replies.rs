//! What scripts see of replies, how they end, and what they tell the host.

use resp::Protocol;
use scripting::{Ending, Level};

use crate::host::Session;

fn seen(raw: &str, script: &str) -> String {
    let mut session = Session::new();
    session.keys.raw = raw.as_bytes().to_vec();
    session.eval(script)
}

#[test]
fn every_kind_of_reply_becomes_a_value() {
    for (raw, script, reply) in [
        ("#t\r\n", "return tostring(redis.call('raw'))", "$4\\r\\ntrue\\r\\n"),
        ("#f\r\n", "return tostring(redis.call('raw'))", "$5\\r\\nfalse\\r\\n"),
        ("_\r\n", "return tostring(redis.call('raw'))", "$3\\r\\nnil\\r\\n"),
        ("$-1\r\n", "return tostring(redis.call('raw'))", "$5\\r\\nfalse\\r\\n"),
        ("*-1\r\n", "return tostring(redis.call('raw'))", "$5\\r\\nfalse\\r\\n"),
        (",1.5\r\n", "return tostring(redis.call('raw').double)", "$3\\r\\n1.5\\r\\n"),
        (",inf\r\n", "return tostring(redis.call('raw').double)", "$3\\r\\ninf\\r\\n"),
        (
            "(123456789012345678901\r\n",
            "return redis.call('raw').big_number",
            "$21\\r\\n123456789012345678901\\r\\n",
        ),
        (
            "=8\r\nmkd:text\r\n",
            "local v = redis.call('raw').verbatim_string return v.format .. v.string",
            "$7\\r\\nmkdtext\\r\\n",
        ),
        (
            "%1\r\n+a\r\n:1\r\n",
            "for k, v in pairs(redis.call('raw').map) do return {k.ok, v} end",
            "*2\\r\\n$1\\r\\na\\r\\n:1\\r\\n",
        ),
        ("~1\r\n$1\r\na\r\n", "return tostring(redis.call('raw').set.a)", "$4\\r\\ntrue\\r\\n"),
        (
            "*2\r\n_\r\n:5\r\n",
            "local t = redis.call('raw') return {tostring(t[1]), t[2]}",
            "*2\\r\\n$3\\r\\nnil\\r\\n:5\\r\\n",
        ),
        (":-9223372036854775808\r\n", "return redis.call('raw')", ":-9223372036854775808\\r\\n"),
        ("-NOSPACE\r\n", "return redis.pcall('raw').err", "$11\\r\\nERR NOSPACE\\r\\n"),
        ("$0\r\n\r\n", "return redis.call('raw') == ''", ":1\\r\\n"),
    ] {
        assert_eq!(seen(raw, script), reply, "{raw}");
    }
}

#[test]
fn a_malformed_reply_is_an_error_and_nothing_worse() {
    let deep = "*1\r\n".repeat(10_000);
    for raw in [
        "",
        "+OK",
        "$5\r\nabc\r\n",
        "*3\r\n:1\r\n",
        "%1\r\n:1\r\n",
        "*1000000000\r\n",
        "?\r\n",
        ":x\r\n",
        ":\r\n",
        "$99999999999999999999\r\n",
        ",x\r\n",
        "=2\r\nab\r\n",
        "%1\r\n_\r\n:1\r\n",
        &deep,
    ] {
        let reply = seen(raw, "return redis.call('raw')");
        assert!(reply.starts_with("-ERR "), "{raw:.20}: {reply}");
    }
}

#[test]
fn how_a_script_ends_says_whether_its_error_was_counted() {
    for (script, ending) in [
        ("return 1", Ending::Returned),
        ("return {err = 'ERR mine'}", Ending::Failed { is_counted: false }),
        ("error('x')", Ending::Failed { is_counted: false }),
        ("return (", Ending::Failed { is_counted: false }),
        ("return redis.call('nosuch')", Ending::Failed { is_counted: true }),
        ("return redis.pcall('nosuch')", Ending::Failed { is_counted: true }),
        ("return {redis.pcall('nosuch')}", Ending::Returned),
        (
            "local ok, e = pcall(redis.call, 'nosuch') return redis.error_reply(e)",
            Ending::Failed { is_counted: false },
        ),
    ] {
        assert_eq!(Session::new().run(script.as_bytes(), &[], &[]).1, ending, "{script}");
    }
}

#[test]
fn calls_arrive_as_they_were_made() {
    let mut session = Session::new();
    session.eval_with(
        "redis.call('SET', 'k', 1.5) redis.pcall('get', ARGV[1], 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)",
        &[b"\x00\xff"],
    );
    assert_eq!(session.keys.calls[0], [&b"SET"[..], b"k", b"1.5"]);
    let many = &session.keys.calls[1];
    assert_eq!(many.len(), 18);
    assert_eq!((&many[1][..], &many[17][..]), (&b"\x00\xff"[..], &b"16"[..]));
}

#[test]
fn the_protocol_is_that_of_the_run() {
    let mut session = Session::new();
    assert_eq!(
        session.eval("redis.setresp(3) return type(redis.call('get', 'no'))"),
        r"$3\r\nnil\r\n"
    );
    assert_eq!(session.eval("return type(redis.call('get', 'no'))"), r"$7\r\nboolean\r\n");
    session.protocol = Protocol::Resp3;
    assert_eq!(session.eval("return type(redis.call('get', 'no'))"), r"$7\r\nboolean\r\n");
}

#[test]
fn lines_for_the_log_arrive_with_their_level() {
    let mut session = Session::new();
    session.eval("redis.log(redis.LOG_WARNING, 'a', 1, {}, 'b') redis.log(redis.LOG_DEBUG, 'd')");
    assert_eq!(
        session.keys.logged,
        [(Level::Warning, b"a 1 b".to_vec()), (Level::Debug, b"d".to_vec())]
    );
}

#[test]
fn the_clock_is_the_hosts() {
    assert_eq!(Session::new().eval("return tostring(os.clock())"), r"$3\r\n1.5\r\n");
}

#[test]
fn permissions_are_the_hosts() {
    assert_eq!(
        Session::new().eval(
            "return {tostring(redis.acl_check_cmd('get', 'k')), tostring(redis.acl_check_cmd('flushall'))}"
        ),
        r"*2\r\n$4\r\ntrue\r\n$5\r\nfalse\r\n"
    );
}

#[test]
fn arrays_that_were_read_can_stay_arrays() {
    let mut session = Session::new();
    assert_eq!(
        session.eval(
            "cjson.decode_array_with_array_mt(true) return cjson.encode(cjson.decode('[[],{}]'))"
        ),
        r"$7\r\n[[],{}]\r\n"
    );
    assert_eq!(
        session.eval(
            "cjson.decode_array_with_array_mt(false) return cjson.encode(cjson.decode('[[],{}]'))"
        ),
        r"$7\r\n[{},{}]\r\n"
    );
}
