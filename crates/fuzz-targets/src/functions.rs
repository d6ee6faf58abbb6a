//! Libraries of functions: FUNCTION LOAD of any source, FUNCTION RESTORE of any payload, FCALL of what came of it.
//!
//! The first byte of the input says what the rest is: a source, sources with zeros in between, or a payload, with its
//! version and checksum or without; and what becomes of the two libraries that are there already.
//!
//! What was refused leaves all as it was. What was loaded is loaded again, from a payload of all that is there, by an
//! interpreter that knows nothing of it, with the same functions.

use scripting::{Existing, Libraries, LibraryError, Options, library_name};

use crate::script_values::Impatient;

/// How often the loading of a source may go on, of 100 instructions each, and how often a function.
const LOADING_PATIENCE: u32 = 2000;
const CALLING_PATIENCE: u32 = 50;

const MEMORY_BYTES_MAX: usize = 8 << 20;

/// As many functions are called.
const CALLS_MAX: usize = 8;

/// What an input may have, and what is there then at most.
const LIMITS: rdb::FunctionLimits =
    rdb::FunctionLimits { source_bytes_max: 1 << 20, libraries_max: 100, all_bytes_max: 4 << 20 };
const ALL_LIMITS: rdb::FunctionLimits =
    rdb::FunctionLimits { source_bytes_max: 1 << 20, libraries_max: 200, all_bytes_max: 8 << 20 };

/// What is there before.
const KNOWN: [&[u8]; 2] = [
    b"#!lua name=known\nredis.register_function('known_f', function(keys) return #keys end)",
    b"#!lua name=other\nlocal n = 0\nredis.register_function('other_f', function() n = n + 1 return n end)",
];

/// The flags of an input.
const SOURCES: u8 = 1;
const PAYLOAD: u8 = 2;
const RAW_PAYLOAD: u8 = 3;
const REPLACES: u8 = 4;
const FLUSHES: u8 = 8;
const PACKS: u8 = 16;

fn options() -> Options {
    Options { memory_bytes_max: MEMORY_BYTES_MAX, interrupt_every: 1000, ..Options::default() }
}

/// What users see of a library: its name, its source, its functions with their flags and descriptions.
type Seen = (Vec<u8>, Vec<u8>, Vec<String>);

fn look(libraries: &Libraries) -> Vec<Seen> {
    let listed = libraries.list().map(|(name, library)| {
        assert_eq!(library_name(library.source()).ok().as_deref(), Some(name));
        let functions = library.functions().iter().map(|function| {
            let found = libraries.find(&function.name().to_ascii_uppercase());
            assert_eq!(found.map(|found| &**found.name()), Some(function.name()));
            let flags: Vec<_> = function.flags().names().collect();
            format!("{:?} {:?} {flags:?}", function.name(), function.description())
        });
        (name.to_vec(), library.source().to_vec(), functions.collect::<Vec<_>>())
    });
    let seen: Vec<Seen> = listed.collect();
    let functions: usize = seen.iter().map(|(.., functions)| functions.len()).sum();
    assert_eq!((libraries.count(), libraries.function_count()), (seen.len(), functions));
    seen
}

pub(crate) fn run(input: &[u8]) {
    let Some((flags, bytes)) = input.split_first() else { return };
    let mut libraries = Libraries::new(options());
    for source in KNOWN {
        load(&mut libraries, source, false).expect("it is good");
    }
    let before = look(&libraries);
    let changed = match flags & 3 {
        SOURCES | PAYLOAD | RAW_PAYLOAD => restore(&mut libraries, *flags, bytes),
        _ => load(&mut libraries, bytes, flags & REPLACES != 0).is_ok(),
    };
    let after = look(&libraries);
    if !changed {
        assert_eq!(after, before, "what was refused has changed something");
        return;
    }
    load_again(&libraries, &after);
    call(&mut libraries);
    assert_eq!(look(&libraries), after, "a function has changed its library");
    for (name, ..) in after {
        libraries.delete(&name).expect("it is listed");
    }
    assert!(look(&libraries).is_empty(), "each was deleted");
}

fn load(
    libraries: &mut Libraries,
    source: &[u8],
    replaces: bool,
) -> Result<Box<[u8]>, LibraryError> {
    libraries.load(source, replaces, &mut Impatient::new(LOADING_PATIENCE))
}

/// Whether what the input has was restored.
fn restore(libraries: &mut Libraries, flags: u8, bytes: &[u8]) -> bool {
    let payload = match flags & 3 {
        SOURCES => rdb::encode_functions(bytes.split(|byte| *byte == 0), flags & PACKS != 0),
        PAYLOAD => rdb::seal(bytes.to_vec()),
        _ => bytes.to_vec(),
    };
    let Ok(sources) = rdb::decode_functions(&payload, LIMITS) else { return false };
    let existing = match (flags & FLUSHES, flags & REPLACES) {
        (0, 0) => Existing::Kept,
        (0, _) => Existing::Replaced,
        _ => Existing::Flushed,
    };
    let restored = libraries.restore(&sources, existing, &mut Impatient::new(LOADING_PATIENCE));
    let Ok(names) = restored else { return false };
    let expected = sources.iter().map(|source| library_name(source).expect("it was restored"));
    assert!(names.into_iter().eq(expected));
    true
}

/// What a start does with what was loaded.
fn load_again(libraries: &Libraries, seen: &[Seen]) {
    let sources = libraries.list().map(|(_, library)| &**library.source());
    let payload = rdb::encode_functions(sources, true);
    let sources = rdb::decode_functions(&payload, ALL_LIMITS).expect("it was just written");
    let mut again = Libraries::new(options());
    // All of them are loaded at once here, which were not before.
    let host = &mut Impatient::new(LOADING_PATIENCE * 4);
    let restored = again.restore(&sources, Existing::Kept, host);
    match restored {
        Ok(_) => assert_eq!(look(&again), seen),
        // Garbage counts.
        Err(error) => assert!(error.to_string().contains("not enough memory"), "{error}"),
    }
}

fn call(libraries: &mut Libraries) {
    let listed = libraries.list().flat_map(|(_, library)| library.functions());
    let names: Vec<Vec<u8>> =
        listed.take(CALLS_MAX).map(|function| function.name().to_vec()).collect();
    for name in names {
        let function = libraries.find(&name).expect("it is listed").clone();
        let mut out = resp::Writer::default();
        let host = &mut Impatient::new(CALLING_PATIENCE);
        let _ending = libraries.call(&function, &[b"key"], &[b"12", b"argument"], host, &mut out);
        let reply = out.take();
        assert!(reply.ends_with(b"\r\n"), "{}", reply.escape_ascii());
    }
    assert!(libraries.machine_bytes() <= MEMORY_BYTES_MAX * 2, "{}", libraries.machine_bytes());
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let sources: [&[u8]; 18] = [
        b"#!lua name=a\nredis.register_function('f', function(keys, args) return args[1] end)",
        b"#!lua name=a\nredis.register_function{function_name='f', callback=function(k, a) return redis.call('get', k[1]) \
          end, flags={'no-writes', 'allow-oom'}, description='reads'}",
        b"#!lua name=a\nfor n = 1, 40 do redis.register_function('f' .. n, function() return n end) end",
        b"#!lua name=a\nlocal t = {} local function g(n) if n > 0 then return g(n - 1) end return n end\n\
          redis.register_function('F', function() t[#t + 1] = g(9) return t end)",
        b"#!lua name=a\nredis.register_function('f', function() while true do end end)",
        b"#!lua name=a\nredis.register_function('f', function(k, a) return cjson.decode(cjson.encode({k, a})) end)",
        b"#!lua name=a\nredis.register_function('f', function() error({err = 'x\\r\\ny'}) end)",
        b"#!lua name=a\nredis.register_function('f', function() local s = 'a' while true do s = s .. s end end)",
        b"#!lua name=a\nlocal c = coroutine.create(function() coroutine.yield(1) end) coroutine.resume(c)\n\
          redis.register_function('f', function() return coroutine.resume(c) end)",
        b"#!lua name=a\nwhile true do end",
        b"#!lua name=a\nredis.log(redis.LOG_WARNING, 'hello') return redis.register_function('f', redis.log)",
        b"#!lua name=a\nredis.call('set', 'a', 'b')",
        b"#!lua name=a\nredis.register_function('f', 1)",
        b"#!lua name=a\nredis.register_function('known_f', function() end)",
        b"#!lua name=known\nredis.register_function('known_f', function() return 'new' end)",
        b"#!LUA NAME=\"a\\x62\"\nredis.register_function('f', function() return {ok = 'fine', err = nil} end)",
        b"#!lua name=a name=b\n",
        b"#!js name=a\nredis.register_function('f', function() end)",
    ];
    let mut seeds: Vec<Vec<u8>> = Vec::new();
    for source in sources {
        seeds.push([&[0][..], source].concat());
        seeds.push([&[REPLACES][..], source].concat());
    }
    for flags in [SOURCES, SOURCES | REPLACES | PACKS, SOURCES | FLUSHES] {
        let second = b"#!lua name=b\nredis.register_function('g', function() return 1.5 end)";
        seeds.push([&[flags][..], sources[0], b"\0", second].concat());
        seeds.push([&[flags][..], sources[2], b"\0", sources[14]].concat());
    }
    let packed = rdb::encode_functions([sources[0], sources[14]], true);
    seeds.push([&[RAW_PAYLOAD | REPLACES][..], &packed[..]].concat());
    seeds.push([&[PAYLOAD | REPLACES][..], &packed[..packed.len() - 10]].concat());
    seeds.push([&[PAYLOAD][..], &b"\xf5\x05#!lua"[..]].concat());
    seeds.push([&[PAYLOAD][..], &b"\xf5\xc3\x05\x40\x80\0#\x20\0"[..]].concat());
    seeds
}
