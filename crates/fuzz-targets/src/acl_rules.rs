//! Rules of users: a file and calls of SETUSER. Refused, and nothing has changed, or what is written of the users is read as the same users.
//!
//! The first byte of the input chooses the channels of new users; the rest is read as an aclfile, and again as calls. A call is
//! the name of a user and its rules, with a NUL byte behind each; an empty word ends it.

use acl::{ChannelDefault, Roster, User, Users};

/// Calls of one input: each is compared with all users of those before.
const CALLS_MAX: usize = 8;

pub(crate) fn run(input: &[u8]) {
    let Some((&flags, rest)) = input.split_first() else { return };
    let default = if flags & 1 == 0 { ChannelDefault::Nothing } else { ChannelDefault::All };
    if let Some(users) = read(rest, default) {
        check_written(&users);
    }
    call(rest, default);
}

/// The users of an aclfile, next to `default`.
fn read(file: &[u8], default: ChannelDefault) -> Option<Users> {
    match Roster::parse(file, "file", default) {
        Ok(roster) => {
            let mut users = Users::new(default);
            users.replace(roster);
            Some(users)
        }
        Err(errors) => {
            assert!(!errors.to_string().contains('\n'), "all that is wrong is one line");
            None
        }
    }
}

/// What is written of the users is read as equal ones.
fn check_written(users: &Users) {
    let file = users.to_file();
    let again = read(&file, users.channel_default());
    let again = again.unwrap_or_else(|| panic!("it is refused: {}", file.escape_ascii()));
    assert_eq!(again.to_file().escape_ascii().to_string(), file.escape_ascii().to_string());
    for ((name, user), (name_again, user_again)) in users.iter().zip(again.iter()) {
        assert_eq!(name, name_again);
        let is_same = user == user_again || has_all_keys_as_pattern(user);
        assert!(is_same, "{user:?}\n{user_again:?}");
    }
}

/// Whether a line may say `~*` for a pattern `%RW~*`, as Redis does: the same keys, but other patterns may be added to it.
pub(crate) fn has_all_keys_as_pattern(user: &User) -> bool {
    user.describe().windows(2).any(|sign| sign == b"~*")
}

fn call(input: &[u8], default: ChannelDefault) {
    let mut users = Users::new(default);
    let mut declared = Users::new(default);
    let words: Vec<&[u8]> = input.split(|byte| *byte == 0).collect();
    for call in words.split(|word| word.is_empty()).take(CALLS_MAX) {
        let Some((name, rules)) = call.split_first() else { continue };
        change(&mut users, |users| users.set_user(name, rules).is_ok());
        change(&mut declared, |users| users.declare(name, rules).is_ok());
        for password in rules {
            // The password of a rule that sets one, and any other word.
            for password in [password, password.strip_prefix(b">").unwrap_or(password)] {
                let key = users.authenticate(name, password);
                assert!(key.is_none() || key == users.key_of(name));
            }
        }
    }
}

/// All of a change is made, and written; or nothing.
fn change(users: &mut Users, make: impl FnOnce(&mut Users) -> bool) {
    let before = users.to_file();
    users.take_changed();
    if make(users) {
        check_written(users);
    } else {
        assert!(users.to_file() == before && users.take_changed().is_empty());
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let files: [&[u8]; 9] = [
        b"\0user default on nopass ~* &* +@all\nuser alice on >secret ~app:* %R~log:* &news +@read -get +select|0\n",
        b"\x01user bob off sanitize-payload resetchannels -@all (~a* +get) (%W~b* &c +@write -set)\n",
        b"\0user carol on #2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b ~* resetchannels &a &b +@all -@dangerous +config|get\r\n",
        b"\0\n  user dave on (~\"x\\\"y\" \"~a)\" +@all) (~'b c' +get)\n\nuser  on\n",
        b"\0user erin skip-sanitize-payload %RW~* +object|freq\nuser erin on\n",
        b"\0user frank on +nope (on) <gone %X~y &* &a\nalice on\n",
        b"\x01user grace reset allkeys allchannels allcommands clearselectors nocommands resetkeys resetpass\n",
        b"\0user heidi on ~x (+get ~y\n",
        b"\0user ivan on +@string -@write +get +GET|a +get|b +debug|c +debug|C +set|) ~* %RW~* \n",
    ];
    let calls: [&[&[u8]]; 6] = [
        &[b"alice", b"on", b">secret", b"~app:*", b"+@all", b"-@admin", b"(~x +get)", b"<secret"],
        &[b"alice", b"nopass", b"%R~*", b"%W~*", b"&*", b"", b"alice", b"resetpass", b"~a"],
        &[b"default", b"off", b"", b"bob", b"+set|a", b"+@string", b"-set", b"(", b"~a", b")"],
        &[b"bob", b"(~a\tb +get \"+set|a)\")", b"()", b"(\"", b"", b"bob", b"clearselectors"],
        &[b"a b", b"on", b"", b"a", b"~a b", b"", b"a", b"+get|a b", b"", b"a", b"%~x"],
        &[b"x", b"!2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b", b"#12"],
    ];
    let calls = calls.map(|words| [&[0], &words.join(&0)[..]].concat());
    files.into_iter().map(<[u8]>::to_vec).chain(calls).collect()
}
