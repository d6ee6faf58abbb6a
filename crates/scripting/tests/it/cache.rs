//! The cache of scripts: what stays, what goes, and what is counted.

use resp::Writer;
use scripting::{Options, Origin, ScriptError, ScriptFlags, ScriptId, Scripts};

use crate::host::{Keys, Session};

fn id(source: &str) -> ScriptId {
    ScriptId::of_source(source.as_bytes())
}

fn numbered(number: usize) -> String {
    format!("return {number}")
}

#[test]
fn a_script_is_found_by_the_sha1_of_its_source() {
    let mut scripts = Scripts::new(Options::default());
    let script = scripts.load(b"return 1", Origin::Load).expect("it is Lua");
    let hex = b"e0e1f9fabfc9d4800c877a703b823ac0578ff8db";
    assert_eq!(script.id().as_bytes(), hex);
    let typed = ScriptId::parse(b"E0E1F9FABFC9D4800C877A703B823AC0578FF8DB").expect("40 digits");
    assert_eq!(scripts.find(&typed), Some(script));
    assert_eq!(scripts.source(&typed), Some(&b"return 1"[..]));
    assert_eq!(ScriptId::parse(b"e0e1"), None);
    assert!(!scripts.contains(&id("return 2")));
}

#[test]
fn of_evaluated_scripts_the_500_used_last_stay() {
    let mut scripts = Scripts::new(Options::default());
    scripts.load(b"return 'loaded'", Origin::Load).expect("it is Lua");
    for number in 0..500 {
        scripts.load(numbered(number).as_bytes(), Origin::Eval).expect("it is Lua");
    }
    assert_eq!((scripts.count(), scripts.evicted()), (501, 0));
    // Used by EVALSHA, used by EVAL, and made one that stays.
    assert!(scripts.find(&id(&numbered(0))).is_some());
    scripts.load(numbered(1).as_bytes(), Origin::Eval).expect("it is Lua");
    scripts.load(numbered(2).as_bytes(), Origin::Load).expect("it is Lua");
    for number in 500..998 {
        scripts.load(numbered(number).as_bytes(), Origin::Eval).expect("it is Lua");
    }
    let has = |number| scripts.contains(&id(&numbered(number)));
    assert_eq!((scripts.count(), scripts.evicted()), (502, 497));
    assert!(has(0) && has(1) && has(2) && !has(3) && !has(499) && has(500) && has(997));
    assert!(scripts.contains(&id("return 'loaded'")));
}

#[test]
fn asking_whether_a_script_exists_does_not_use_it() {
    let mut scripts = Scripts::new(Options::default());
    for number in 0..500 {
        scripts.load(numbered(number).as_bytes(), Origin::Eval).expect("it is Lua");
    }
    assert!(scripts.contains(&id(&numbered(0))));
    scripts.load(numbered(500).as_bytes(), Origin::Eval).expect("it is Lua");
    assert!(!scripts.contains(&id(&numbered(0))));
}

#[test]
fn evicted_scripts_give_their_memory_back() {
    let mut scripts = Scripts::new(Options::default());
    let mut sizes = Vec::new();
    for round in 0..4 {
        for number in 0..500 {
            let source = format!("local t = {{{round}, {number}, 'some text'}} return t[1] + t[2]");
            scripts.load(source.as_bytes(), Origin::Eval).expect("it is Lua");
        }
        sizes.push((scripts.machine_bytes(), scripts.source_bytes()));
    }
    assert_eq!(sizes[1].1, sizes[3].1, "the sources have the same length");
    assert!(sizes[3].0 < sizes[0].0 * 3, "{sizes:?}");
}

#[test]
fn flush_drops_everything() {
    let mut session = Session::new();
    session.eval("cjson.encode_max_depth(1) return 1");
    let fresh = Scripts::new(Options::default()).machine_bytes();
    drop(session.scripts.flush());
    assert_eq!(session.scripts.count(), 0);
    assert_eq!(session.scripts.source_bytes(), 0);
    assert_eq!(session.scripts.machine_bytes(), fresh);
    assert_eq!(session.eval("return cjson.encode({{1}})"), r"$5\r\n[[1]]\r\n");
}

#[test]
fn what_does_not_compile_is_not_kept() {
    let mut scripts = Scripts::new(Options::default());
    let error = scripts.load(b"return (", Origin::Load).expect_err("it is not Lua");
    assert_eq!(
        error.to_string(),
        "Error compiling script (new function): user_script:1: unexpected symbol near '<eof>'"
    );
    assert_eq!(scripts.load(b"#!lua", Origin::Eval), Err(ScriptError::UnendedShebang));
    assert_eq!((scripts.count(), scripts.source_bytes()), (0, 0));
}

#[test]
fn compiled_chunks_are_refused() {
    let mut scripts = Scripts::new(Options::default());
    let error = scripts.load(b"\x1bLuaQ", Origin::Load).expect_err("it is no source");
    assert_eq!(
        error.to_string(),
        "Error compiling script (new function): compiled chunks are not loaded"
    );
    let mut session = Session::new();
    assert_eq!(
        session.eval("return loadstring(string.dump(function() return 1 end)) == nil"),
        r":1\r\n"
    );
}

#[test]
fn flags_are_those_of_the_first_line() {
    let mut scripts = Scripts::new(Options::default());
    let mut flags = |source: &[u8]| {
        let script = scripts.load(source, Origin::Load).expect("it is right");
        scripts.flags(script).map(|flags| flags.names().collect::<Vec<_>>())
    };
    assert_eq!(flags(b"return 1"), None);
    assert_eq!(flags(b"#!lua\nreturn 1"), Some(vec![]));
    assert_eq!(
        flags(b"#!lua flags=allow-cross-slot-keys,no-writes\nreturn 1"),
        Some(vec!["no-writes", "allow-cross-slot-keys"])
    );
    let script = scripts.load(b"#!lua flags=allow-oom\nreturn 1", Origin::Load).expect("right");
    let flags = scripts.flags(script).expect("it has a first line");
    assert!(flags.contains(ScriptFlags::ALLOW_OOM) && !flags.contains(ScriptFlags::NO_WRITES));
}

#[test]
fn a_state_moves_to_another_thread() {
    let mut scripts = Scripts::new(Options::default());
    let script = scripts.load(b"return {1, 'x'}", Origin::Load).expect("it is Lua");
    let reply = std::thread::spawn(move || {
        let mut out = Writer::default();
        let _ = scripts.run(script, &[], &[], &mut Keys::default(), &mut out);
        out.take()
    });
    assert_eq!(reply.join().expect("no panic"), b"*2\r\n:1\r\n$1\r\nx\r\n");
}
