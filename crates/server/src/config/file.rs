//! Reads redis.conf and the command line.
//!
//! ```text
//!   indelible server redis.conf --port 7000 --save ''
//!                    │          └─ one more line each, after the file's
//!                    └─ lines; `include other.conf` reads another file in its place
//! ```
//!
//! What is wrong is reported with the line, as Redis reports it, and the server does not start.

use std::fmt::Write as _;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use super::directive::{Directive, Support};
use super::directives::{DIRECTIVES, MODULE_PREFIXES, NO_MODULES};
use super::refusal::{ConfigError, LineError, ValueError};
use super::{Config, find};

/// How deep files may include one another.
const INCLUDE_DEPTH_MAX: u32 = 16;

/// The configuration that a file (`-` for standard input) and `--name value …` arguments say.
///
/// # Errors
/// When a file cannot be read or a line is wrong.
pub fn load(file: Option<&str>, arguments: &[String]) -> Result<Config, ConfigError> {
    let mut config = Config::default();
    load_into(&mut config, file, arguments)?;
    Ok(config)
}

/// The same into a configuration of the caller's, which has what came before what is wrong.
///
/// # Errors
/// When a file cannot be read or a line is wrong.
pub fn load_into(
    config: &mut Config,
    file: Option<&str>,
    arguments: &[String],
) -> Result<(), ConfigError> {
    config.is_default = file.is_none() && arguments.is_empty();
    match file {
        None => {}
        Some("-") => {
            let mut bytes = Vec::new();
            std::io::stdin()
                .read_to_end(&mut bytes)
                .map_err(|source| ConfigError::Unreadable { path: "-".to_owned(), source })?;
            read_lines(config, "the standard input", &bytes, 0)?;
        }
        Some(path) => {
            config.file = Some(std::path::absolute(path).unwrap_or_else(|_| PathBuf::from(path)));
            read_file(config, Path::new(path), 0)?;
        }
    }
    read_arguments(config, arguments)
}

/// The configuration that the text of a file says, if it includes no other file.
///
/// # Errors
/// When a line is wrong, or an `include`.
pub fn parse(text: &[u8]) -> Result<Config, ConfigError> {
    let mut config = Config::default();
    read_lines(&mut config, "the text", text, INCLUDE_DEPTH_MAX)?;
    Ok(config)
}

fn read_file(config: &mut Config, path: &Path, depth: u32) -> Result<(), ConfigError> {
    let bytes = std::fs::read(path)
        .map_err(|source| ConfigError::Unreadable { path: path.display().to_string(), source })?;
    read_lines(config, &format!("the configuration file {}", path.display()), &bytes, depth)
}

fn read_lines(
    config: &mut Config,
    place: &str,
    bytes: &[u8],
    depth: u32,
) -> Result<(), ConfigError> {
    for (index, line) in bytes.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() || line[0] == b'#' {
            continue;
        }
        let wrong = |why: LineError| ConfigError::Line {
            place: place.to_owned(),
            number: index + 1,
            line: String::from_utf8_lossy(line).into_owned(),
            why,
        };
        let (mut text, mut ranges) = (Vec::new(), Vec::new());
        resp::split_words(line, &mut text, &mut ranges)
            .ok_or_else(|| wrong(LineError::UnbalancedQuotes))?;
        let words: Vec<&[u8]> = ranges.into_iter().map(|range| &text[range]).collect();
        if let [name, user, rules @ ..] = words.as_slice()
            && name.eq_ignore_ascii_case(b"user")
        {
            // Names and patterns are bytes.
            config.declare_user(user, rules).map_err(|why| wrong(why.into()))?;
            continue;
        }
        let words = words
            .into_iter()
            .map(std::str::from_utf8)
            .collect::<Result<Vec<&str>, _>>()
            .map_err(|_| wrong(LineError::NotText))?;
        let Some((name, values)) = words.split_first() else { continue };
        if name.eq_ignore_ascii_case("include") && values.len() == 1 {
            if depth == INCLUDE_DEPTH_MAX {
                return Err(wrong(LineError::IncludesTooDeep));
            }
            for path in included(values[0]) {
                read_file(config, &path, depth + 1)?;
            }
        } else {
            apply(config, name, values).map_err(wrong)?;
        }
    }
    Ok(())
}

/// The files that an include names; a pattern may match none.
fn included(pattern: &str) -> Vec<PathBuf> {
    let path = Path::new(pattern);
    let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
        return vec![path.to_owned()];
    };
    if !name.contains(['*', '?', '[']) {
        return vec![path.to_owned()];
    }
    let directory =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| {
            let file = path.file_name().and_then(|file| file.to_str()).unwrap_or_default();
            base::glob::matches(name.as_bytes(), file.as_bytes())
        })
        .collect();
    files.sort();
    files
}

/// Every `--name` begins a line; what follows up to the next one are its values.
fn read_arguments(config: &mut Config, arguments: &[String]) -> Result<(), ConfigError> {
    let mut rest = arguments;
    let mut number = 0;
    while let Some((first, tail)) = rest.split_first() {
        number += 1;
        let values_len = tail.iter().position(|word| word.starts_with("--")).unwrap_or(tail.len());
        let (values, next) = tail.split_at(values_len);
        rest = next;
        let values: Vec<&str> = values.iter().map(String::as_str).collect();
        let result = match first.strip_prefix("--") {
            Some(name) => apply(config, name, &values),
            None => Err(LineError::NoOption),
        };
        result.map_err(|why| {
            let mut line = first.trim_start_matches("--").to_owned();
            for value in &values {
                let _infallible = write!(line, " \"{value}\"");
            }
            ConfigError::Line { place: "the command line".to_owned(), number, line, why }
        })?;
    }
    Ok(())
}

fn apply(config: &mut Config, name: &str, values: &[&str]) -> Result<(), LineError> {
    let Some(index) = find(name) else {
        let lower = name.to_ascii_lowercase();
        // `loadmodule`d modules take directives of the form module.name.
        let is_modules =
            lower.contains('.') || MODULE_PREFIXES.iter().any(|prefix| lower.starts_with(prefix));
        return Err(match is_modules {
            true => LineError::Unsupported(NO_MODULES),
            false => LineError::UnknownDirective,
        });
    };
    let directive = &DIRECTIVES[index];
    if !directive.has_value() {
        return apply_line(config, directive, values);
    }
    if !directive.takes_words() {
        return match values {
            [_] => Ok(config.set(index, values, true)?),
            _ => Err(ValueError::WordCount.into()),
        };
    }
    match values {
        // One quoted argument may hold all the words: --save "900 1 60 5".
        [all] if !all.is_empty() => {
            let words: Vec<&str> = all.split_whitespace().collect();
            Ok(config.set(index, &words, true)?)
        }
        _ => Ok(config.set(index, values, true)?),
    }
}

/// Does what a line says that is not the value of a directive; `include` was done already.
fn apply_line(
    config: &mut Config,
    directive: &Directive,
    values: &[&str],
) -> Result<(), LineError> {
    match (directive.name, values) {
        ("rename-command", [old, new]) => Ok(config.commands.rename(old, new)?),
        ("user", [name, rules @ ..]) => {
            let rules: Vec<&[u8]> = rules.iter().map(|rule| rule.as_bytes()).collect();
            Ok(config.declare_user(name.as_bytes(), &rules)?)
        }
        (_, values) => match directive.support {
            Support::Refused(why) => Err(LineError::Unsupported(why)),
            Support::WithoutEffect if values.len() == 1 => Ok(()),
            _ => Err(ValueError::WordCount.into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Config, String> {
        let mut config = Config::default();
        read_lines(&mut config, "a test", text.as_bytes(), 0).map_err(|error| error.to_string())?;
        Ok(config)
    }

    #[test]
    fn lines_set_directives() {
        let config =
            read("# a comment\n\nPort 7000\n  requirepass \"a b\"\nsave 900 1\nsave 60 5\r\n")
                .unwrap();
        assert_eq!(config.value("port"), "7000");
        assert_eq!(config.value("requirepass"), "a b");
        assert_eq!(config.value("save"), "900 1 60 5");
    }

    #[test]
    fn a_wrong_line_is_shown() {
        let error = read("port 7000\nprot 1\n").unwrap_err();
        assert!(
            error.contains("at line 2\n>>> 'prot 1'\nBad directive or wrong number of arguments"),
            "{error}"
        );
        let error = read("port x\n").unwrap_err();
        assert!(error.contains("argument couldn't be parsed into an integer"), "{error}");
        let error = read("port 1 2\n").unwrap_err();
        assert!(error.contains("wrong number of arguments"), "{error}");
        let error = read("dir \"x\n").unwrap_err();
        assert!(error.contains("Unbalanced quotes in configuration line"), "{error}");
    }

    #[test]
    fn lines_without_a_value_do_what_they_say_or_are_refused() {
        let config = read("rename-command GET fetch\nrename-command flushall \"\"\n").unwrap();
        assert!(config.commands().lookup(b"get").is_none());
        assert_eq!(config.commands().lookup(b"FETCH").unwrap().name, "get");
        assert!(config.commands().lookup(b"flushall").is_none());
        for (line, why) in [
            ("rename-command nothing x", "No such command in rename-command"),
            ("rename-command get set", "Target command name already exists"),
            ("rename-command get", "wrong number of arguments"),
            ("user", "wrong number of arguments"),
            ("user alice +nope", "Unknown command or category name in ACL"),
            (
                "user alice #hunter2",
                "Error loading ACL rule '#(redacted)' for the user named 'alice'",
            ),
            ("user \"a b\" on", "Spaces not allowed in ACL usernames"),
            ("user a (~x", "Unmatched parenthesis"),
            ("user a on\nuser a on", "Duplicate user found"),
            ("loadmodule /x.so", "modules and their directives are not supported"),
            ("search-timeout 500", "modules and their directives are not supported"),
            ("testmodule.flag yes", "modules and their directives are not supported"),
            ("sentinel monitor a 127.0.0.1 1 1", "Sentinel"),
        ] {
            let error = read(line).unwrap_err();
            assert!(error.contains(why), "{line}: {error}");
        }
        for secret in ["hunter2", ">hunter2", "(>hunter2 +get)", "(>hunter2"] {
            let error = parse(format!("user alice on {secret}").as_bytes()).err();
            // A password of a selector is none.
            let text = error.map(|error| error.for_log()).unwrap_or_default();
            assert!(!text.contains("hunter2"), "{text}");
        }
        let config =
            read("user default on nopass ~* &* +@all\nUSER a on ~\\x \"~\\xff\" +get\n").unwrap();
        let rules: [&[u8]; 5] = [b"a", b"on", b"~\\x", b"~\xff", b"+get"];
        assert_eq!(config.users()[1], rules);
        read("list-max-ziplist-entries 128\n").unwrap();
        let config = read("primaryauth x\ncommandlog-execution-slower-than 7\n").unwrap();
        assert_eq!(config.refusal().unwrap().0, "masterauth");
        assert_eq!(config.value("slowlog-log-slower-than"), "7");
    }

    #[test]
    fn arguments_follow_the_file() {
        let arguments =
            ["--port", "7001", "--save", "", "--bind", "127.0.0.1", "::1"].map(str::to_owned);
        let config = load(None, &arguments).unwrap();
        assert_eq!(config.value("port"), "7001");
        assert_eq!(config.value("save"), "");
        assert_eq!(config.value("bind"), "127.0.0.1 ::1");
        let error = load(None, &["--port".to_owned(), "x".to_owned()]).unwrap_err().to_string();
        assert!(error.contains(">>> 'port \"x\"'"), "{error}");
    }

    #[test]
    fn files_are_included_where_they_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        std::fs::write(at("a.conf"), "port 1\ntimeout 7\n").unwrap();
        std::fs::write(
            at("main.conf"),
            format!(
                "include {}/*.conf.d\ninclude {}\nport 2\n",
                at("").display(),
                at("a.conf").display()
            ),
        )
        .unwrap();
        let config = load(Some(at("main.conf").to_str().unwrap()), &[]).unwrap();
        assert_eq!((config.value("port"), config.value("timeout")), ("2", "7"));
        std::fs::write(at("loop.conf"), format!("include {}\n", at("loop.conf").display()))
            .unwrap();
        assert!(load(Some(at("loop.conf").to_str().unwrap()), &[]).is_err());
        assert!(load(Some(at("none.conf").to_str().unwrap()), &[]).is_err());
    }
}
