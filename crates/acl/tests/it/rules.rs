//! What a line of rules makes of a user: what it may do, and what it may not.

use acl::{ChannelDefault, ChannelUse, Denial, Users};
use command_spec::table;

/// A user of these rules.
fn users(rules: &str) -> Users {
    let mut users = Users::new(ChannelDefault::Nothing);
    let words: Vec<&[u8]> = rules.split(' ').map(str::as_bytes).collect();
    users.set_user(b"u", &words).unwrap();
    users
}

/// What the user may not use in a call, or `ok`.
fn check(users: &Users, call: &str) -> String {
    let call: Vec<&[u8]> = call.split(' ').map(str::as_bytes).collect();
    let command = table::resolve(&call).unwrap();
    match users.by_name(b"u").unwrap().check(command, &call) {
        Ok(()) => "ok".to_owned(),
        Err(denial @ Denial::Command) => format!("command {}", text(denial.object(command, &call))),
        Err(denial) => {
            format!("{} {}", denial.reason().name(), text(denial.object(command, &call)))
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn reading_and_writing_are_two_rights() {
    let users = users("+@all %R~r %W~w ~b");
    for (call, expected) in [
        ("get r", "ok"),
        ("set r x", "key r"),
        ("set w x", "ok"),
        ("get w", "key w"),
        ("set w x get", "key w"),
        ("set b x get", "ok"),
        ("copy r w", "ok"),
        ("copy w r", "key w"),
        ("lpop w", "key w"),
        // Whether it exists is no value.
        ("exists r w", "ok"),
        ("del w r", "key r"),
        ("bitfield r get u8 0", "ok"),
        ("bitfield r set u8 0 1", "key r"),
        ("sort r store r", "key r"),
        ("sort r store w", "ok"),
    ] {
        assert_eq!(check(&users, call), expected, "{call}");
    }
}

#[test]
fn a_key_that_hides_behind_a_keyword_is_found() {
    let users = users("+@all ~a ~streams ~g");
    assert_eq!(check(&users, "xreadgroup noack group g streams streams secret >"), "key secret");
    assert_eq!(check(&users, "xreadgroup group streams streams streams secret >"), "key secret");
    assert_eq!(check(&users, "xreadgroup group streams streams streams a >"), "ok");
    assert_eq!(check(&users, "georadius a 1 2 3 km store a store secret"), "key secret");
    assert_eq!(check(&users, "georadius a 1 2 3 km store a storedist secret"), "key secret");
    assert_eq!(check(&users, "pfmerge secret"), "key secret");
    assert_eq!(check(&users, "pfmerge a"), "ok");
}

#[test]
fn what_returns_all_data_needs_all_keys() {
    for (rules, expected) in [
        ("+@all ~a", "key *"),
        ("+@all %W~*", "key *"),
        ("+@all %R~*", "ok"),
        ("+@all (~* +get)", "key *"),
        ("(+logtail +sync ~*)", "ok"),
    ] {
        let users = users(rules);
        assert_eq!(check(&users, "logtail 0"), expected, "{rules}");
        assert_eq!(check(&users, "sync"), expected, "{rules}");
    }
    assert_eq!(check(&users("+@blocking ~*"), "logtail 0"), "command logtail");
    let call: [&[u8]; 2] = [b"logtail", b"0"];
    let command = table::resolve(&call).unwrap();
    assert_eq!(Denial::AllKeys.error("u", command), "NOPERM No permissions to access a key");
    assert_eq!(
        text(&Denial::AllKeys.dry_run(b"u", command, &call)),
        "User u has no permissions to access the '*' key"
    );
}

#[test]
fn one_selector_must_allow_all_of_a_call() {
    let users = users("+get ~a (+set ~b) (+get ~c &x +publish)");
    for (call, expected) in [
        ("get a", "ok"),
        ("get b", "key b"),
        ("set b 1", "ok"),
        ("set a 1", "key a"),
        ("get c", "ok"),
        ("publish x 1", "ok"),
        ("publish y 1", "channel y"),
        ("del a", "command del"),
    ] {
        assert_eq!(check(&users, call), expected, "{call}");
    }
}

#[test]
fn subcommands_and_first_arguments_are_told_apart() {
    let users =
        users("+config|get +select|0 +@connection -select +select|1 +object -object|freq ~*");
    for (call, expected) in [
        ("config get x", "ok"),
        ("config set x y", "command config|set"),
        ("select 1", "ok"),
        ("select 0", "command select"),
        ("object encoding a", "ok"),
        ("object freq a", "command object|freq"),
        ("auth x", "ok"),
    ] {
        assert_eq!(check(&users, call), expected, "{call}");
    }
}

#[test]
fn a_pattern_is_subscribed_to_as_it_is_allowed() {
    let users = users("+@all &news:* &a?");
    let user = users.by_name(b"u").unwrap();
    assert!(user.may_use_channel(b"news:1", ChannelUse::Channel));
    assert!(user.may_use_channel(b"news:*", ChannelUse::Pattern));
    assert!(!user.may_use_channel(b"news:1*", ChannelUse::Pattern));
    assert_eq!(check(&users, "psubscribe news:* a?"), "ok");
    assert_eq!(check(&users, "psubscribe news:* a*"), "channel a*");
    assert_eq!(check(&users, "subscribe news:1 other"), "channel other");
    assert_eq!(check(&users, "unsubscribe other"), "ok");
}

#[test]
fn sort_by_other_keys_needs_all_of_them() {
    let may = |rules: &str| {
        let users = users(rules);
        let call: [&[u8]; 4] = [b"sort", b"a", b"by", b"w_*"];
        let command = table::resolve(&call).unwrap();
        users.by_name(b"u").unwrap().may_read_all_keys(command, &call)
    };
    assert!(may("+@all ~*") && may("+@all %R~*") && may("(+sort ~a %R~*)"));
    assert!(!may("+@all ~a ~w_*") && !may("+@all %W~* ~a") && !may("+sort ~a (%R~*)"));
}

#[test]
fn a_line_never_says_more_than_its_user_may() {
    // Redis takes the first of these, and writes a line that makes an administrator.
    let mut users = Users::new(ChannelDefault::Nothing);
    for rule in [&b"+select|0 +@all"[..], b"+select|0\nuser x on nopass +@all ~*"] {
        users.set_user(b"u", &[rule]).unwrap_err();
    }
    users.set_user(b"u", &[b"(+get ~a))", b"(~\"x\\\"y\" +set)"]).unwrap();
    let line = text(&users.by_name(b"u").unwrap().describe());
    assert_eq!(
        line,
        "off sanitize-payload resetchannels -@all (\"~a)\" resetchannels -@all +get) (\"~x\\\"y\" resetchannels -@all +set)"
    );
    let words: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    users.set_user(b"v", &words).unwrap();
    assert_eq!(users.by_name(b"v"), users.by_name(b"u"));
}
