//! FUNCTION LOAD and FCALL. The texts are what Redis 8.2 says.

use resp::Writer;
use scripting::{Ending, Existing, Libraries, LibraryError, Options, ScriptFlags};

use crate::host::Keys;

fn libraries() -> Libraries {
    Libraries::new(Options::default())
}

fn load(libraries: &mut Libraries, code: &str) -> Result<String, String> {
    match libraries.load(code.as_bytes(), false, &mut Keys::default()) {
        Ok(name) => Ok(String::from_utf8_lossy(&name).into_owned()),
        Err(error) => Err(error.to_string()),
    }
}

fn call(libraries: &mut Libraries, name: &str, keys: &[&[u8]], arguments: &[&[u8]]) -> String {
    call_on(libraries, &mut Keys::default(), name, keys, arguments).0
}

fn call_on(
    libraries: &mut Libraries,
    host: &mut Keys,
    name: &str,
    keys: &[&[u8]],
    arguments: &[&[u8]],
) -> (String, Ending) {
    let function = libraries.find(name.as_bytes()).expect("it is registered").clone();
    let mut out = Writer::default();
    let ending = libraries.call(&function, keys, arguments, host, &mut out);
    (out.take().escape_ascii().to_string(), ending)
}

const ECHO: &str = "#!lua name=a\n\
    redis.register_function('f', function(keys, args) return {keys[1], args[1]} end)";

#[test]
fn a_function_gets_keys_and_arguments() {
    let mut libraries = libraries();
    assert_eq!(load(&mut libraries, ECHO), Ok("a".to_owned()));
    assert_eq!(call(&mut libraries, "f", &[b"k"], &[b"x"]), r"*2\r\n$1\r\nk\r\n$1\r\nx\r\n");
    assert_eq!(**libraries.find(b"F").expect("in any case of letters").name(), *b"f");
    assert_eq!((libraries.count(), libraries.function_count()), (1, 1));
}

#[test]
fn what_is_wrong_with_a_library_is_said() {
    for (code, text) in [
        ("return 1", "Missing library metadata"),
        ("#!lua", "Invalid library metadata"),
        ("#!lua \"x\nreturn 1", "Invalid library metadata"),
        ("#!lua\nreturn 1", "Library name was not given"),
        (
            "#!lua name=a name=b\nx",
            "Invalid metadata value, name argument was given multiple times",
        ),
        ("#!lua foo=a name=b\nx", "Invalid metadata value given: foo=a"),
        (
            "#!lua name=a-b\nx",
            "Library names can only contain letters, numbers, or underscores(_) and must be at \
             least one character long",
        ),
        ("#!py name=b\nx", "Engine 'py' not found"),
        ("#!LUA name=b\nreturn 1", "No functions registered"),
        (
            "#!lua name=b\nreturn (",
            "Error compiling function: user_function:2: unexpected symbol near '<eof>'",
        ),
    ] {
        assert_eq!(load(&mut libraries(), code), Err(text.to_owned()), "{code}");
    }
}

#[test]
fn what_is_wrong_with_a_registration_is_said() {
    let nonexistent = |name: &str| {
        format!("user_function:2: Script attempted to access nonexistent global variable '{name}'")
    };
    let text = |text: &str| text.to_owned();
    for (source, expected) in [
        ("rf()", text("wrong number of arguments to redis.register_function")),
        ("rf('a','b','c')", text("wrong number of arguments to redis.register_function")),
        (
            "rf('g')",
            text(
                "calling redis.register_function with a single argument is only applicable to Lua \
                 table (representing named arguments).",
            ),
        ),
        ("rf(nil, f)", text("first argument to redis.register_function must be a string")),
        ("rf('g', 2)", text("second argument to redis.register_function must be a function")),
        ("rf{}", text("redis.register_function must get a function name argument")),
        ("rf{function_name='g'}", text("redis.register_function must get a callback argument")),
        (
            "rf{function_name=f}",
            text("function_name argument given to redis.register_function must be a string"),
        ),
        (
            "rf{function_name='g', callback=1}",
            text("callback argument given to redis.register_function must be a function"),
        ),
        (
            "rf{function_name='g', callback=f, flags=1}",
            text(
                "flags argument to redis.register_function must be a table representing function \
                 flags",
            ),
        ),
        ("rf{function_name='g', callback=f, flags={'bad'}}", text("unknown flag given")),
        (
            "rf{function_name='g', callback=f, description=f}",
            text("description argument given to redis.register_function must be a string"),
        ),
        ("rf{1}", text("unknown argument given to redis.register_function")),
        ("rf{x=1}", text("unknown argument given to redis.register_function")),
        ("rf{[f]=1}", text("named argument key given to redis.register_function is not a string")),
        ("rf('g', f) rf('g', f)", text("Function already exists in the library")),
        ("rf('g', f) rf('G', f)", text("Function already exists in the library")),
        ("math.random()", nonexistent("math")),
        ("redis.call('ping')", nonexistent("call")),
        ("redis.setresp(3)", nonexistent("setresp")),
        ("error('x')", nonexistent("error")),
        ("x = 1", text("user_function:2: Attempt to modify a readonly table")),
    ] {
        let code =
            format!("#!lua name=b\nlocal rf, f = redis.register_function, function() end {source}");
        let expected = format!("Error registering functions: ERR {expected}");
        assert_eq!(load(&mut libraries(), &code), Err(expected), "{source}");
    }
}

#[test]
fn functions_see_what_scripts_see_and_no_more() {
    let mut libraries = libraries();
    let code = "#!lua name=c
local rf = redis.register_function
rf('h', function() rf('i', function() end) end)
rf('j', function() return KEYS end)
rf('k', function() error('x') end)
rf('l', function() return redis.pcall('nosuch').err end)
rf('m', function() x = 1 end)
rf('n', function() return redis.breakpoint end)
rf('o', function() return math.floor(redis.call('incr', 'n')) end)";
    assert_eq!(load(&mut libraries, code), Ok("c".to_owned()));
    for (name, reply) in [
        (
            "h",
            "-ERR redis.register_function can only be called on FUNCTION LOAD command script: h, \
             on @user_function:3.",
        ),
        (
            "j",
            r"-ERR user_function:4: Script attempted to access nonexistent global variable \'KEYS\' script: j, on @user_function:4.",
        ),
        ("k", "-ERR user_function:5: x script: k, on @user_function:5."),
        ("l", r"$44\r\nERR Unknown Redis command called from script"),
        (
            "m",
            "-ERR user_function:7: Attempt to modify a readonly table script: m, on \
             @user_function:7.",
        ),
        ("n", "$-1"),
        ("o", ":1"),
    ] {
        assert_eq!(call(&mut libraries, name, &[], &[]), format!("{reply}\\r\\n"), "{name}");
    }
}

#[test]
fn flags_and_descriptions_are_listed() {
    let mut libraries = libraries();
    let code = "#!lua name=d\nredis.register_function{function_name='g', callback=function() end,
        flags={'no-writes', 'ALLOW-OOM'}, description='what it does'}";
    load(&mut libraries, code).expect("it is right");
    let (name, library) = libraries.list().next().expect("there is one");
    let function = &library.functions()[0];
    assert_eq!((name, &**library.source()), (&b"d"[..], code.as_bytes()));
    assert_eq!((function.name(), function.description()), (&b"g"[..], Some(&b"what it does"[..])));
    assert_eq!(function.flags().names().collect::<Vec<_>>(), ["no-writes", "allow-oom"]);
    assert!(libraries.find(b"g").expect("it is there").flags().contains(ScriptFlags::NO_WRITES));
}

#[test]
fn a_library_is_replaced_as_a_whole_or_not_at_all() {
    let mut libraries = libraries();
    load(&mut libraries, ECHO).expect("it is right");
    let other = "#!lua name=b\nredis.register_function('g', function() return 2 end)";
    load(&mut libraries, other).expect("it is right");
    let bytes = libraries.source_bytes();
    assert_eq!(load(&mut libraries, ECHO), Err("Library 'a' already exists".to_owned()));

    let host = &mut Keys::default();
    let taken = b"#!lua name=a\nredis.register_function('g', function() return 1 end)";
    assert_eq!(
        libraries.load(taken, true, host),
        Err(LibraryError::FunctionExists("g".to_owned()))
    );
    assert!(libraries.load(b"#!lua name=a\nreturn (", true, host).is_err());
    assert!(libraries.load(b"#!lua name=a\nreturn 1", true, host).is_err());
    assert_eq!(call(&mut libraries, "f", &[], &[]), r"*0\r\n", "the old one is there");
    assert_eq!(libraries.source_bytes(), bytes);

    let new = b"#!lua name=a\nredis.register_function('f2', function() return 3 end)";
    assert!(libraries.load(new, true, host).is_ok());
    assert!(libraries.find(b"f").is_none(), "functions go with their library");
    assert_eq!(call(&mut libraries, "f2", &[], &[]), r":3\r\n");

    assert_eq!(libraries.delete(b"a"), Ok(()));
    assert_eq!(libraries.delete(b"a"), Err(LibraryError::NotFound));
    assert!(libraries.find(b"f2").is_none());
    drop(libraries.flush());
    assert_eq!((libraries.count(), libraries.source_bytes()), (0, 0));
}

/// The source of a library that registers these functions, each of which returns its library's name.
fn source_of(name: &str, functions: &[&str]) -> String {
    let register = |function: &&str| {
        format!("\nredis.register_function('{function}', function() return '{name}' end)")
    };
    let functions: String = functions.iter().map(register).collect();
    format!("#!lua name={name}{functions}")
}

#[test]
fn libraries_are_restored_together_or_not_at_all() {
    let mut libraries = libraries();
    let (a, b) = (source_of("a", &["f", "g"]), source_of("b", &["h"]));
    load(&mut libraries, &a).expect("it is right");
    load(&mut libraries, &b).expect("it is right");
    let mut restore = |sources: &[String], existing| {
        let restored = libraries.restore(sources, existing, &mut Keys::default());
        let names = libraries.list().map(|(name, _)| String::from_utf8_lossy(name).into_owned());
        (restored.map(|_| ()).map_err(|error| error.to_string()), names.collect::<Vec<_>>())
    };
    let error = |text: &str| Err(text.to_owned());
    let both = || vec!["a".to_owned(), "b".to_owned()];
    let (c, taken) = (source_of("c", &["i"]), source_of("d", &["H"]));
    for (sources, existing, expected) in [
        (vec![c.clone(), a.clone()], Existing::Kept, error("Library a already exists")),
        (vec![c.clone(), c.clone()], Existing::Flushed, error("Library 'c' already exists")),
        (
            vec![c.clone(), source_of("d", &["I"])],
            Existing::Flushed,
            error("Function I already exists"),
        ),
        (vec![c.clone(), taken.clone()], Existing::Replaced, error("Function H already exists")),
        (
            vec![c.clone(), "#!lua name=e\n".to_owned()],
            Existing::Flushed,
            error("No functions registered"),
        ),
        (vec![c.clone(), "x".to_owned()], Existing::Kept, error("Missing library metadata")),
    ] {
        assert_eq!(restore(&sources, existing), (expected, both()), "{sources:?}");
    }
    // A name that goes with what is replaced is free.
    let moved = [source_of("b", &["k"]), source_of("c", &["h"])];
    assert_eq!(restore(&moved, Existing::Replaced).0, Ok(()));
    assert_eq!(restore(&[taken], Existing::Flushed), (Ok(()), vec!["d".to_owned()]));
    assert_eq!(call(&mut libraries, "h", &[], &[]), r"$1\r\nd\r\n");
    assert!(["f", "g", "i", "k"].iter().all(|name| libraries.find(name.as_bytes()).is_none()));
    assert_eq!((libraries.count(), libraries.function_count()), (1, 1));
}

#[test]
fn a_library_has_a_longest_source() {
    let mut libraries = libraries();
    let long = format!("#!lua name=a\n--{}", "x".repeat(16 << 20));
    let error = load(&mut libraries, &long).expect_err("it is too long");
    assert!(error.contains("is too long: it may have 16777216"), "{error}");
    assert_eq!(libraries.count(), 0);
}

#[test]
fn a_library_that_does_not_end_is_given_up() {
    let mut libraries = libraries();
    let host = &mut Keys { patience: Some(3), ..Keys::default() };
    let error = libraries.load(b"#!lua name=a\nwhile true do end", false, host);
    assert_eq!(
        error.map_err(|error| error.to_string()),
        Err("Error registering functions: ERR FUNCTION LOAD timeout".to_owned())
    );
    assert_eq!(load(&mut libraries, ECHO), Ok("a".to_owned()), "the next one is loaded");
}

#[test]
fn upvalues_of_a_library_stay_between_calls() {
    let mut libraries = libraries();
    let code = "#!lua name=e\nlocal n = 0
        redis.register_function('next', function() n = n + 1 return n end)";
    load(&mut libraries, code).expect("it is right");
    assert_eq!(call(&mut libraries, "next", &[], &[]), r":1\r\n");
    assert_eq!(call(&mut libraries, "next", &[], &[]), r":2\r\n");
}

#[test]
fn functions_are_stopped_like_scripts() {
    let mut libraries = libraries();
    load(
        &mut libraries,
        "#!lua name=a\nredis.register_function('f', function() while true do end end)",
    )
    .expect("it is right");
    let host = &mut Keys { patience: Some(3), ..Keys::default() };
    let (reply, ending) = call_on(&mut libraries, host, "f", &[], &[]);
    assert_eq!(
        (&reply[..], ending),
        (
            r"-ERR Script killed by user with FUNCTION KILL. script: f, on @user_function:2.\r\n",
            Ending::Stopped
        )
    );
}

#[test]
fn what_a_library_registers_is_bounded() {
    let many = |count: u32| {
        format!(
            "#!lua name=a\nfor n = 1, {count} do redis.register_function('f' .. n, function() end) end"
        )
    };
    assert_eq!(load(&mut libraries(), &many(10_000)), Ok("a".to_owned()));
    let error = load(&mut libraries(), &many(10_001)).expect_err("one more than may be");
    assert!(error.contains("a library may register 10000 functions"), "{error}");

    let described = |bytes: usize| {
        format!(
            "#!lua name=a\nlocal text = '{}'\nfor n = 1, 4 do redis.register_function{{\
             function_name='f' .. n, callback=function() end, description=text}} end",
            "x".repeat(bytes)
        )
    };
    assert_eq!(load(&mut libraries(), &described(262_142)), Ok("a".to_owned()));
    for bytes in [262_143, 2 << 20] {
        let error = load(&mut libraries(), &described(bytes)).expect_err("too much text");
        assert!(error.contains("may have 1048576 bytes together"), "{error}");
    }
}
