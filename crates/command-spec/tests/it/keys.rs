//! The keys of calls, by commands that are not served: those that are, COMMAND GETKEYS has tests of.

use command_spec::keys::{NoKeys, of, of_call};
use command_spec::table;

/// The keys of a call, as `key=flags`; two quotes are an empty argument.
fn keys_of(call: &str) -> Result<String, NoKeys> {
    let call: Vec<&[u8]> =
        call.split(' ').map(|word| if word == "''" { b"" } else { word.as_bytes() }).collect();
    let command = table::find_call(&call).expect("a command");
    let found = of_call(&command, &call)?;
    let shown = found.iter().map(|key| {
        let flags: Vec<&str> = key.flags.names().collect();
        format!("{}={}", String::from_utf8_lossy(call[key.index]), flags.join(","))
    });
    Ok(shown.collect::<Vec<_>>().join(" "))
}

#[test]
fn keys_are_found_as_newer_servers_find_them() {
    for (call, keys) in [
        ("eval x 2 a b c", "a=RW,access,update b=RW,access,update"),
        ("eval x 0 c", ""),
        ("fcall_ro f 1 a", "a=RO,access"),
        ("xread count 2 streams a b 0 0", "a=RO,access b=RO,access"),
        ("xreadgroup group g c streams s >", "s=RO,access"),
        ("xgroup create s g 0", "s=RW,insert"),
        ("xinfo stream s", "s=RO,access"),
        ("migrate h 1 a 0 10 copy", "a=RW,access,delete"),
        ("migrate h 1 '' 0 10 auth keys keys a b", "a=RW,access,delete b=RW,access,delete"),
        ("georadius a 1 2 3 km store b", "a=RO,access b=OW,update"),
        ("georadius a 1 2 3 km", "a=RO,access"),
        // The last destination is the one that is written.
        ("georadius a 1 2 3 km store b store c", "a=RO,access b=OW,update c=OW,update"),
        ("georadius a 1 2 3 km storedist store store c", "a=RO,access store=OW,update c=OW,update"),
        ("georadiusbymember a store 3 km count 1 store c", "a=RO,access c=OW,update"),
        // A group and a consumer that are called as the keyword is.
        ("xreadgroup group streams streams streams s >", "s=RO,access"),
        ("xreadgroup noack group g streams streams s >", "s=RO,access"),
        ("xreadgroup count 1 group streams c streams s t > >", "s=RO,access t=RO,access"),
        ("pfmerge a", "a=RW,access,insert"),
        ("pfmerge a b c", "a=RW,access,insert b=RO,access c=RO,access"),
        ("set a b ifeq c", "a=RW,update"),
        ("set a b ifne c get", "a=RW,access,update"),
        ("delex a", "a=RM,delete"),
        ("delex a ifeq x", "a=RW,delete"),
        ("msetex 2 a 1 b 2 ex 10", "a=OW,update b=OW,update"),
        ("vsim v ele e", "v=RO,access"),
        ("himport set h f 1", "h=OW,update"),
    ] {
        assert_eq!(keys_of(call).as_deref(), Ok(keys), "{call}");
    }
}

#[test]
fn why_there_are_none_is_said() {
    assert_eq!(keys_of("script load x"), Err(NoKeys::InCommand));
    assert_eq!(keys_of("xack s"), Err(NoKeys::WrongArity));
    assert_eq!(keys_of("msetex many a 1"), Err(NoKeys::InArguments));
}

#[test]
fn a_key_is_one_of_the_arguments_however_few_there_are() {
    let call: [&[u8]; 8] = [b"", b"1", b"2", b"", b"5", b"6", b"keys", b"streams"];
    for command in table::known().flat_map(|it| std::iter::once(it).chain(it.known_subcommands())) {
        for len in 0..=call.len() {
            for key in of(command.spec(), &call[..len]).into_iter().flatten() {
                assert!(key.index < len, "{} with {len} arguments", command.name);
            }
        }
    }
}
