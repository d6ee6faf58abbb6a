//! The configuration: a file's text, then CONFIG SET's arguments, separated by zeros.
//!
//! What was accepted can be worked with, and means the same after CONFIG REWRITE. `include` is
//! refused here: the input must not choose files of this machine.

use server::config::{self, Config};

pub(crate) fn run(input: &[u8]) {
    let mut parts = input.split(|byte| *byte == 0);
    let text = parts.next().unwrap_or_default();
    let mut config = match config::parse(text) {
        Ok(config) => config,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            Config::default()
        }
    };
    check(&config, text);
    let words: Vec<&str> = parts.filter_map(|part| std::str::from_utf8(part).ok()).collect();
    for pair in words.chunks_exact(2) {
        match config.with_changes(&[(pair[0], pair[1])], true) {
            Ok((changed, names)) => {
                assert_eq!(names.len(), 1);
                check_again(&changed, names[0]);
                config = changed;
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    check(&config, text);
}

/// Every value of a configuration.
fn values(config: &Config) -> Vec<(&'static str, String)> {
    let all = config.matching(b"*");
    all.into_iter().map(|(name, value)| (name, value.into_owned())).collect()
}

/// It can be worked with, and written into a file that says the same.
fn check(config: &Config, old_text: &[u8]) {
    let _must_not_panic = config.options();
    for old in [b"", old_text] {
        // Lines that no rewrite understands stay as they are, wrong as they may be.
        if config::parse(old).is_err() {
            continue;
        }
        let text = config.rewritten(old, &[]);
        let again = config::parse(&text).unwrap_or_else(|error| {
            panic!("rewritten, not readable: {error}\n{}", text.escape_ascii())
        });
        assert_eq!(values(&again), values(config), "{}", text.escape_ascii());
    }
}

/// What CONFIG GET shows, CONFIG SET takes, and it stays the same.
fn check_again(config: &Config, name: &str) {
    let (_, value) = config.matching(name.as_bytes()).remove(0);
    let (again, _) = config
        .with_changes(&[(name, &value)], true)
        .unwrap_or_else(|error| panic!("{name} has the value {value:?}: {error}"));
    assert_eq!(again.value(name), config.value(name));
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    [
        "# a comment\nport 7000\nrequirepass \"a b\\x41\\n\"\nsave 900 1\nsave 60 5\r\n",
        "maxmemory 100mb\nappendfsync everysec\nclient-output-buffer-limit normal 1mb 2mb 60\n",
        "notify-keyspace-events KEA\nbind 127.0.0.1 ::1\nunixsocketperm 700\nlog-devices a b\n",
        "list-max-ziplist-size -2\nlua-replicate-commands yes\nmaxmemory-clients 5%\n",
        "\0hz\x0050\0latency-tracking-info-percentiles\x0050 99.9 1e-3\0save\x00\0maxmemory\x001k",
        "dir \"x\n",
        "\0requirepass\0'\" \\ \n\t\0logfile\0x\0client-output-buffer-limit\0replica 1 2 3",
        "\0notify-keyspace-events\0nmgd$KE\0oom-score-adj-values\x001 2 3\0shutdown-on-sigterm\0save now",
    ]
    .iter()
    .map(|text| text.as_bytes().to_vec())
    .collect()
}
