//! The configuration: redis.conf, command-line options, CONFIG GET, SET and REWRITE.
//!
//! ```text
//!   redis.conf + --name value ──► file ──┐
//!   CONFIG SET ──────────────────────────┴─► Config: canonical texts, one a directive
//!                                               │ read once after every change
//!        CONFIG GET · CONFIG REWRITE ◄──────────┴─► Options: what the server works with
//! ```
//!
//! The table in `directives` is the only place that knows which directives exist. A change either
//! takes effect as a whole or not at all.

mod directive;
mod directives;
mod file;
mod options;
mod refusal;
mod rewrite;
mod words;

use std::borrow::Cow;
use std::path::PathBuf;

pub use directive::{Directive, Support, parse_memory};
pub use file::{load, load_into, parse};
pub use options::{
    AccessOptions, ArchivePlace, ArchiveSettings, DebugOptions, FsyncPolicy, IndexPolicy,
    LogLimits, LogOptions, Options, OutputLimit, ProtectedAction, SnapshotAlgorithm,
};
pub use refusal::{CannotServe, ConfigError, LineError, SetError, SetRefusal, ValueError};
pub(crate) use rewrite::lines_of_users;

use acl::{ChannelDefault, DeclarationError, Users};
use command::names::Names;
use directive::WordsSet;
use directives::DIRECTIVES;

/// The value of every directive.
#[derive(Clone, Debug)]
pub struct Config {
    values: Vec<String>,
    /// The file that was read, for CONFIG REWRITE and INFO.
    pub file: Option<PathBuf>,
    /// Neither a file nor options were given.
    pub is_default: bool,
    /// A `save` line was read: it took the place of the default save points.
    has_save_lines: bool,
    /// Whether `appendonly` was given, and not left at its default, which differs from Redis'.
    gives_appendonly: bool,
    /// Which command a name means: `rename-command`.
    commands: Names,
    /// The lines `user`: a name and its rules.
    users: Vec<Vec<Vec<u8>>>,
}

impl Default for Config {
    fn default() -> Self {
        let values = DIRECTIVES.iter().map(Directive::default_text).collect();
        Self {
            values,
            file: None,
            is_default: true,
            has_save_lines: false,
            gives_appendonly: false,
            commands: Names::default(),
            users: Vec::new(),
        }
    }
}

impl Config {
    /// The canonical text of a directive's value.
    ///
    /// # Panics
    /// When the table has no such directive: names in the code are fixed.
    #[must_use]
    pub fn value(&self, name: &str) -> &str {
        let index = find(name).unwrap_or_else(|| panic!("the table has the directive {name}"));
        &self.values[index]
    }

    /// Names and values of the directives that match a glob pattern, as CONFIG GET shows them.
    pub fn matching<'a>(&'a self, pattern: &[u8]) -> Vec<(&'static str, Cow<'a, str>)> {
        let pattern = pattern.to_ascii_lowercase();
        let is_exact = !pattern.iter().any(|byte| matches!(byte, b'*' | b'?' | b'['));
        // Redis 7.2 has no directive of such a name: hidden ones are asked for.
        let shows_hidden = is_exact || pattern.starts_with(b"commandlog");
        let names = |directive: &'static Directive| {
            let shown = if shows_hidden { usize::MAX } else { 1 + directive.alias.iter().count() };
            directive.all_names().take(shown)
        };
        DIRECTIVES
            .iter()
            .zip(&self.values)
            .filter(|(directive, _)| directive.has_value() && (shows_hidden || !directive.hidden))
            .flat_map(|(directive, value)| {
                names(directive).map(move |name| (name, directive.shown(value)))
            })
            .filter(|(name, _)| {
                if is_exact {
                    name.as_bytes() == pattern
                } else {
                    base::glob::matches(&pattern, name.as_bytes())
                }
            })
            .collect()
    }

    /// The configuration with all of `pairs` changed, as CONFIG SET does, and the names that were
    /// given; `protected_allowed` says whether this client may change protected directives.
    ///
    /// # Errors
    /// The first thing that is wrong; nothing is changed then.
    pub fn with_changes(
        &self,
        pairs: &[(&str, &str)],
        protected_allowed: bool,
    ) -> Result<(Self, Vec<&'static str>), SetError> {
        let mut indexes = Vec::new();
        for (name, _) in pairs {
            let index = find(name)
                .filter(|index| DIRECTIVES[*index].has_value())
                .ok_or_else(|| SetError::Unknown((*name).to_owned()))?;
            let refused = |why| Err(SetError::Refused { directive: (*name).to_owned(), why });
            let directive = &DIRECTIVES[index];
            if directive.immutable {
                return refused(SetRefusal::Immutable);
            }
            if directive.protected && !protected_allowed {
                return refused(SetRefusal::Protected);
            }
            if indexes.contains(&index) {
                return refused(SetRefusal::Duplicate);
            }
            indexes.push(index);
        }
        let mut changed = self.clone();
        for (index, (_, value)) in indexes.iter().zip(pairs) {
            let directive = &DIRECTIVES[*index];
            let words: Vec<&str> =
                if directive.takes_words() { value.split(' ').collect() } else { vec![value] };
            changed.set(*index, &words, false).map_err(|why| SetError::Refused {
                directive: directive.name.to_owned(),
                why: why.into(),
            })?;
        }
        if let Some((name, why)) = changed.refusal() {
            let why = SetRefusal::Unsupported(why);
            return Err(SetError::Refused { directive: name.to_owned(), why });
        }
        Ok((changed, indexes.into_iter().map(|index| DIRECTIVES[index].name).collect()))
    }

    /// A directive whose value cannot be kept, where serving anyway would be unsafe or untrue: its
    /// name, and what to do.
    #[must_use]
    pub fn refusal(&self) -> Option<(&'static str, &'static str)> {
        DIRECTIVES.iter().zip(&self.values).find_map(|(directive, value)| match directive.support {
            Support::Refused(why) if *value != directive.default_text() => {
                Some((directive.name, why))
            }
            _ => None,
        })
    }

    /// Checks that a server can start with this configuration.
    ///
    /// # Errors
    /// The first reason.
    pub fn check_start(&self) -> Result<(), CannotServe> {
        if let Some((directive, why)) = self.refusal() {
            return Err(CannotServe::Unsupported { directive, why });
        }
        if !self.users.is_empty() && !self.value("aclfile").is_empty() {
            return Err(CannotServe::UsersAndFile);
        }
        self.make_users()?;
        let needs_log = self.value("maxmemory-policy").starts_with("cold-");
        if needs_log && self.value("appendonly") == "no" {
            return Err(CannotServe::NoLog);
        }
        if self.merges_without_log() {
            return Err(CannotServe::NoLogToMerge);
        }
        let has_port = self.value("port") != "0" || self.value("tls-port") != "0";
        let is_nowhere = !has_port || self.value("bind").trim().is_empty();
        if is_nowhere && self.value("unixsocket").is_empty() {
            return Err(CannotServe::Nowhere);
        }
        Ok(())
    }

    /// Whether dumps are to be made of what the log has since the last one, and there is no log.
    pub(crate) fn merges_without_log(&self) -> bool {
        self.value("snapshot-algorithm") == "hourglass" && self.value("appendonly") == "no"
    }

    /// The directives that are set to something else than their default and have no effect here.
    #[must_use]
    pub fn without_effect(&self) -> Vec<&'static str> {
        let is_listed = |directive: &Directive, value: &String| {
            directive.support == Support::WithoutEffect && *value != directive.default_text()
        };
        let all = DIRECTIVES.iter().zip(&self.values);
        all.filter(|(directive, value)| is_listed(directive, value))
            .map(|(directive, _)| directive.name)
            .collect()
    }

    /// What is different in `new`, as one line for the log: without secrets, and nothing in it that
    /// could be taken for another line.
    #[must_use]
    pub fn describe_changes(&self, new: &Self) -> String {
        const SHOWN_LETTERS_MAX: usize = 128;
        let all = DIRECTIVES.iter().zip(self.values.iter().zip(&new.values));
        let changed = all.filter(|(_, (old, new))| old != new);
        let texts: Vec<String> = changed
            .map(|(directive, (_, value))| {
                let shown: String = if directive.sensitive {
                    "(redacted)".to_owned()
                } else {
                    value.escape_debug().take(SHOWN_LETTERS_MAX).collect()
                };
                let note = match directive.support {
                    Support::WithoutEffect => " (has no effect here)",
                    _ => "",
                };
                format!("{}={shown}{note}", directive.name)
            })
            .collect();
        texts.join(", ")
    }

    /// The lines `user`: a name and its rules each.
    #[must_use]
    pub fn users(&self) -> &[Vec<Vec<u8>>] {
        &self.users
    }

    /// Adds a line `user`.
    fn declare_user(&mut self, name: &[u8], rules: &[&[u8]]) -> Result<(), DeclarationError> {
        if self.users.iter().any(|line| line[0] == name) {
            return Err(DeclarationError::Duplicate(String::from_utf8_lossy(name).into_owned()));
        }
        Users::new(self.channel_default()).declare(name, rules)?;
        let words = std::iter::once(name).chain(rules.iter().copied());
        self.users.push(words.map(<[u8]>::to_vec).collect());
        Ok(())
    }

    /// The channels of a new user: `acl-pubsub-default`.
    #[must_use]
    pub fn channel_default(&self) -> ChannelDefault {
        match self.value("acl-pubsub-default") {
            "allchannels" => ChannelDefault::All,
            _ => ChannelDefault::Nothing,
        }
    }

    /// The users that the lines `user` make, with `requirepass` for the default user. A line that says `nopass` of that does not
    /// take away the password: CONFIG REWRITE of Redis may have put it there.
    ///
    /// # Errors
    /// When a line is wrong, given what follows it in the file.
    pub fn make_users(&self) -> Result<Users, DeclarationError> {
        let mut users = Users::new(self.channel_default());
        for line in &self.users {
            let rules: Vec<&[u8]> = line[1..].iter().map(Vec::as_slice).collect();
            users.declare(&line[0], &rules)?;
        }
        let password = self.value("requirepass");
        if !password.is_empty() && users.default_user().needs_no_password() {
            users.require_password(password.as_bytes()).map_err(|why| {
                DeclarationError::Rule("requirepass".to_owned(), "default".to_owned(), why)
            })?;
        }
        Ok(users)
    }

    /// Which command a name means.
    #[must_use]
    pub fn commands(&self) -> &Names {
        &self.commands
    }

    /// Turns the redo log on where Redis would have kept the data: `appendonly no` with save
    /// points. Whether it was off.
    pub fn keep_what_redis_keeps(&mut self) -> bool {
        // Redis' default has save points.
        let has_points = !self.has_save_lines || !self.value("save").is_empty();
        let is_kept = self.value("appendonly") == "no" && has_points;
        if is_kept {
            self.values[find("appendonly").expect("the table has it")] = "yes".to_owned();
        }
        is_kept
    }

    /// Whether `appendonly` was given, and not left at its default, which differs from Redis'.
    #[must_use]
    pub const fn gives_appendonly(&self) -> bool {
        self.gives_appendonly
    }

    /// Notes the full path of the data directory, which CONFIG GET shows.
    pub fn set_directory(&mut self, path: &std::path::Path) {
        let index = find("dir").expect("the table has it");
        self.values[index] = path.display().to_string();
    }

    /// The same without a log, and without what needs one.
    #[must_use]
    pub fn without_log(&self) -> Self {
        let mut changed = self.clone();
        let mut set = |name, value: &str| {
            changed.values[find(name).expect("the table has it")] = value.to_owned();
        };
        set("appendonly", "no");
        if self.value("snapshot-algorithm") == "hourglass" {
            set("snapshot-algorithm", "auto");
        }
        if self.value("maxmemory-policy").starts_with("cold-") {
            // Any other one would lose what was to be kept.
            set("maxmemory-policy", "noeviction");
        }
        changed
    }

    /// Notes how many clients the system allows, when that is less than the user wants.
    pub fn set_max_clients(&mut self, allowed: usize) {
        let index = find("maxclients").expect("the table has it");
        self.values[index] = allowed.to_string();
    }

    /// Whether a directive's value must not be shown.
    #[must_use]
    pub fn is_sensitive(name: &str) -> bool {
        find(name).is_some_and(|index| DIRECTIVES[index].sensitive)
    }

    fn set(&mut self, index: usize, words: &[&str], from_file: bool) -> Result<(), ValueError> {
        let is_first_save = DIRECTIVES[index].name == "save" && !self.has_save_lines;
        self.has_save_lines |= is_first_save;
        self.gives_appendonly |= DIRECTIVES[index].name == "appendonly";
        let old = if is_first_save { "" } else { self.values[index].as_str() };
        let set = WordsSet { old, words, from_file };
        let value = DIRECTIVES[index].parse(&set)?;
        self.values[index] = value;
        Ok(())
    }
}

/// The place of a directive in the table.
fn find(name: &str) -> Option<usize> {
    DIRECTIVES.iter().position(|directive| directive.is_called(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Secrets are in no log, no note and no backup, also of what no server runs with yet.
    #[test]
    fn what_has_a_password_is_sensitive() {
        let is_secret = |name: &str| {
            ["pass", "auth", "secret"].iter().any(|word| name.contains(word))
                && !name.starts_with("tls-auth-clients")
        };
        let secrets = DIRECTIVES.iter().filter(|directive| is_secret(directive.name));
        let told: Vec<&str> =
            secrets.clone().filter(|it| !it.sensitive).map(|it| it.name).collect();
        assert!(told.is_empty() && secrets.count() >= 4, "{told:?}");
    }

    #[test]
    fn a_configuration_that_redis_keeps_data_under_has_the_log_on() {
        for (appendonly, save, is_kept) in
            [("no", "3600 1 300 100 60 10000", true), ("no", "", false), ("yes", "", false)]
        {
            let config = Config::default();
            let (mut config, _) =
                config.with_changes(&[("appendonly", appendonly), ("save", save)], false).unwrap();
            assert_eq!(config.keep_what_redis_keeps(), is_kept, "{appendonly} {save:?}");
            assert_eq!(config.value("appendonly") == "yes", is_kept || appendonly == "yes");
        }
    }

    #[test]
    fn what_would_be_unsafe_to_ignore_is_refused() {
        assert_eq!(Config::default().refusal(), None);
        assert_eq!(Config::default().check_start(), Ok(()));
        let refused = DIRECTIVES.iter().enumerate().filter_map(|(index, directive)| {
            let Support::Refused(why) = directive.support else { return None };
            directive.has_value().then_some((index, directive, why))
        });
        let mut count = 0;
        for (index, directive, why) in refused {
            let words: &[&str] = match (directive.name, directive.default_text().as_str()) {
                ("replicaof", _) => &["10.0.0.1", "6379"],
                (_, "yes") => &["no"],
                (_, "no") => &["yes"],
                _ => &["1"],
            };
            let mut config = Config::default();
            config.set(index, words, true).unwrap();
            assert_eq!(config.refusal(), Some((directive.name, why)));
            let expected = CannotServe::Unsupported { directive: directive.name, why };
            assert_eq!(expected.to_string(), format!("{}: {why}", directive.name));
            assert_eq!(config.check_start(), Err(expected));
            assert_eq!(config.without_effect(), [""; 0]);
            if !directive.immutable {
                let pairs = [(directive.name, words[0])];
                assert!(Config::default().with_changes(&pairs, true).is_err());
            }
            count += 1;
        }
        assert!(count >= 15, "{count}");
    }

    #[test]
    fn a_server_that_listens_nowhere_does_not_start() {
        let refused = load(None, &["--port".to_owned(), "0".to_owned()]).unwrap();
        assert_eq!(refused.check_start(), Err(CannotServe::Nowhere));
        let arguments = ["--port", "0", "--unixsocket", "/s"].map(str::to_owned);
        assert_eq!(load(None, &arguments).unwrap().check_start(), Ok(()));
    }

    #[test]
    fn what_has_no_effect_is_listed_when_it_differs_from_the_default() {
        let text = b"io-threads-do-reads yes\nactivedefrag no\nlookahead 1\nmaxmemory 1gb\n";
        let config = parse(text).unwrap();
        assert_eq!(config.without_effect(), ["io-threads-do-reads", "lookahead"]);
        assert_eq!(Config::default().without_effect(), [""; 0]);
        let (config, _) = config.with_changes(&[("activedefrag", "yes")], false).unwrap();
        assert_eq!(config.value("activedefrag"), "yes");
    }

    #[test]
    fn changes_are_described_without_secrets_in_one_line() {
        let old = Config::default();
        let pairs = [("requirepass", "hush"), ("hz", "20"), ("activerehashing", "no")];
        let (new, _) = old.with_changes(&pairs, false).unwrap();
        let text = old.describe_changes(&new);
        let expected = "activerehashing=no (has no effect here), hz=20, requirepass=(redacted)";
        assert_eq!(text, expected);
        assert_eq!(new.describe_changes(&new), "");
        let (new, _) = old.with_changes(&[("proc-title-template", "a\n1:M x")], false).unwrap();
        assert!(old.describe_changes(&new).starts_with("proc-title-template=a\\n1:M x"));
    }

    /// A directive that is kept is read somewhere, and one without effect is read nowhere.
    #[test]
    fn the_support_of_each_directive_is_what_the_code_makes_of_it() {
        // INFO shows the backlog.
        const SHOWN_ONLY: &[&str] = &["repl-backlog-size"];
        let mut sources = String::new();
        read_sources(concat!(env!("CARGO_MANIFEST_DIR"), "/src").as_ref(), &mut sources);
        read_sources(concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/src").as_ref(), &mut sources);
        for directive in DIRECTIVES.iter().filter(|directive| directive.has_value()) {
            let is_read = sources.contains(&format!("\"{}\"", directive.name));
            let expected = match directive.support {
                Support::Kept => true,
                Support::WithoutEffect => SHOWN_ONLY.contains(&directive.name),
                Support::Refused(_) => continue,
            };
            assert_eq!(is_read, expected, "{}", directive.name);
        }
    }

    fn read_sources(directory: &std::path::Path, out: &mut String) {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if path.is_dir() {
                if !matches!(name, "config" | "tests") {
                    read_sources(&path, out);
                }
            } else if name.ends_with(".rs") {
                out.push_str(&std::fs::read_to_string(&path).unwrap());
            }
        }
        if directory.ends_with("server/src") {
            out.push_str(include_str!("options.rs"));
        }
    }

    #[test]
    fn names_are_unique_and_defaults_are_values() {
        let mut names = Vec::new();
        for (index, directive) in DIRECTIVES.iter().enumerate() {
            names.extend(directive.all_names());
            if !directive.has_value() {
                continue;
            }
            let default = directive.default_text();
            let written = directive.shown(&default);
            let words: Vec<&str> =
                if directive.takes_words() { written.split(' ').collect() } else { vec![&written] };
            let mut config = Config::default();
            config.set(index, &words, false).unwrap_or_else(|why| {
                // replicaof has no value that stands for none.
                assert_eq!(directive.name, "replicaof", "{why}");
            });
            assert_eq!(config.values[index], default, "{}", directive.name);
        }
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn a_change_is_all_or_nothing() {
        let config = Config::default();
        let (changed, names) =
            config.with_changes(&[("maxmemory", "1mb"), ("timeout", "5")], false).unwrap();
        assert_eq!((changed.value("maxmemory"), changed.value("timeout")), ("1048576", "5"));
        assert_eq!(names, ["maxmemory", "timeout"]);
        let refused =
            config.with_changes(&[("maxmemory", "1mb"), ("timeout", "x")], false).unwrap_err();
        assert_eq!(
            refused.to_string(),
            "ERR CONFIG SET failed (possibly related to argument 'timeout') - \
             argument couldn't be parsed into an integer"
        );
        let unknown = config.with_changes(&[("nothing", "1")], false).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "ERR Unknown option or number of arguments for CONFIG SET - 'nothing'"
        );
        assert!(config.with_changes(&[("databases", "1")], false).is_err());
        assert!(config.with_changes(&[("dir", "/")], false).is_err());
        assert!(config.with_changes(&[("timeout", "1"), ("timeout", "2")], false).is_err());
    }
}
