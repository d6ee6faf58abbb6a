//! Classifies a statement by its words, as far as recovery needs.
//!
//! A statement counts as changing nothing only if that is proven: it begins with SELECT or SHOW,
//! and calls only built-in functions without side effects. A stored function may write, GET_LOCK
//! and NEXTVAL have effects, LAST_INSERT_ID(n) sets a value: so every name before a parenthesis
//! must be known. Where the words themselves are ambiguous (executed comments, or backslashes
//! before quotes, which end the string or not depending on the session's mode), nothing is proven.

mod functions;
mod words;

use self::words::{Token, Tokens};

/// The effect of a statement on its session and transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Reads, and changes nothing outside a transaction.
    Reads,
    /// Concerns the server rather than its data, and would be harmful on another server.
    Administers,
    /// May change something.
    Writes,
    /// Commits an open transaction, then acts: DDL.
    WritesAlone,
    Begin,
    Commit,
    Rollback,
    /// Sets a property of the session with this name; a later one replaces it.
    Sets(String),
    /// Turns autocommit on or off.
    SetsAutocommit(bool),
    /// LOAD DATA LOCAL: the client sends a file after it.
    LoadsLocal,
}

/// Splits `sql` into its statements at semicolons.
pub(crate) fn statements(sql: &[u8]) -> Vec<&[u8]> {
    let (mut found, mut begin) = (Vec::new(), 0);
    let mut tokens = Tokens::new(sql);
    while let Some(token) = tokens.next() {
        if token == Token::Symbol(b';') {
            found.push(&sql[begin..tokens.at() - 1]);
            begin = tokens.at();
        }
    }
    found.push(&sql[begin..]);
    found.retain(|statement| Tokens::new(statement).next().is_some());
    found
}

/// Classifies one statement.
pub(crate) fn kind(statement: &[u8]) -> Kind {
    let mut tokens = Tokens::new(statement);
    let mut first = tokens.next();
    while first == Some(Token::Symbol(b'(')) {
        first = tokens.next();
    }
    let Some(Token::Word(first)) = first else { return Kind::Writes };
    let mut lower = [0; 16];
    let Some(word) = lower.get_mut(..first.len()) else { return Kind::Writes };
    word.copy_from_slice(first);
    word.make_ascii_lowercase();
    let second = Tokens::new(&statement[tokens.at()..]).next();
    let second_is = |name: &str| matches!(second, Some(Token::Word(word)) if is(word, name));
    match &*word {
        b"select" | b"values" if reads_only(statement) => Kind::Reads,
        b"show" | b"desc" | b"describe" | b"explain" | b"help" => Kind::Reads,
        b"begin" => Kind::Begin,
        b"start" if second_is("transaction") => Kind::Begin,
        b"commit" => Kind::Commit,
        b"rollback" if !has_word(statement, "to") => Kind::Rollback,
        b"start" | b"stop" | b"change" | b"reset" | b"purge" | b"kill" | b"shutdown"
        | b"backup" => Kind::Administers,
        b"use" => Kind::Sets("use".into()),
        b"set" => set(statement),
        b"prepare" | b"deallocate" => Kind::Sets(match second {
            Some(Token::Word(name)) => format!("prepare {}", lowercase(name)),
            _ => "prepare".into(),
        }),
        b"load" if has_word(statement, "local") => Kind::LoadsLocal,
        b"create" | b"drop" if second_is("temporary") => Kind::Writes,
        b"create" | b"drop" | b"alter" | b"truncate" | b"rename" | b"grant" | b"revoke"
        | b"lock" | b"optimize" | b"repair" | b"analyze" | b"install" | b"uninstall" => {
            Kind::WritesAlone
        }
        _ => Kind::Writes,
    }
}

/// Whether the statement uses the time or a random number, so that the moment of execution matters.
/// Column defaults may use the time too, so this includes every statement that writes rows.
pub(crate) fn may_ask_for_time(statement: &[u8]) -> bool {
    matches!(kind(statement), Kind::Writes | Kind::WritesAlone | Kind::LoadsLocal)
        && !["savepoint", "release", "rollback", "xa", "unlock"]
            .iter()
            .any(|word| begins_with(statement, word))
}

/// Whether the statement's first word is `word`.
pub(crate) fn begins_with(statement: &[u8], word: &str) -> bool {
    matches!(Tokens::new(statement).next(), Some(Token::Word(first)) if is(first, word))
}

fn is(word: &[u8], name: &str) -> bool {
    word.eq_ignore_ascii_case(name.as_bytes())
}

fn lowercase(word: &[u8]) -> String {
    String::from_utf8_lossy(word).to_lowercase()
}

fn has_word(statement: &[u8], name: &str) -> bool {
    Tokens::new(statement).any(|token| matches!(token, Token::Word(word) if is(word, name)))
}

/// Words that a read-only statement does not contain.
const NOT_IN_READS: [&str; 10] = [
    "delete",
    "into",
    "lastval",
    "lock",
    "next",
    "nextval",
    "procedure",
    "setval",
    "share",
    "update",
];

/// Whether a SELECT is proven to change nothing.
fn reads_only(statement: &[u8]) -> bool {
    let mut before = None;
    let mut before_that = None;
    for token in Tokens::new(statement) {
        let is_allowed = match (token, before) {
            (Token::Doubtful | Token::Assignment, _) => false,
            (Token::Symbol(b'('), Some(Token::Word(name))) => {
                before_that != Some(Token::Symbol(b'.')) && functions::is_harmless(name)
            }
            // A quoted name may be that of any function.
            (Token::Symbol(b'('), Some(Token::Name)) => false,
            (Token::Word(word), _) => !NOT_IN_READS.iter().any(|name| is(word, name)),
            _ => true,
        };
        if !is_allowed {
            return false;
        }
        before_that = before;
        before = Some(token);
    }
    true
}

/// Classifies SET: as a session setting, if it is certainly nothing else.
fn set(statement: &[u8]) -> Kind {
    let mut names = Vec::new();
    let mut expects_name = false;
    let mut is_value = false;
    let mut autocommit = None;
    for (index, token) in Tokens::new(statement).enumerate() {
        match token {
            Token::Doubtful | Token::Symbol(b'(' | b';') => return Kind::Writes,
            Token::Symbol(b',') => {
                expects_name = true;
                is_value = false;
            }
            Token::Symbol(b'=') | Token::Assignment => is_value = true,
            Token::Word(word) => {
                if index > 0
                    && ["global", "persist", "persist_only", "password", "statement", "for"]
                        .iter()
                        .any(|name| is(word, name))
                {
                    return Kind::Writes;
                }
                if index == 1 && is(word, "transaction") {
                    // For the next transaction only.
                    return Kind::Writes;
                }
                if is_value && names.len() == 1 && names[0] == "autocommit" {
                    autocommit = Some(is(word, "1") || is(word, "on") || is(word, "true"));
                }
                let is_scope = ["session", "local"].iter().any(|scope| is(word, scope));
                if (expects_name || index == 1) && !is_value && !is_scope {
                    names.push(lowercase(word));
                    expects_name = false;
                } else if is_scope {
                    expects_name = true;
                } else if expects_name && !is_value {
                    names.push(lowercase(word));
                    expects_name = false;
                }
            }
            Token::Symbol(b'@') if !is_value && names.is_empty() => expects_name = true,
            _ => {}
        }
    }
    names.sort_unstable();
    match (autocommit, names.len()) {
        (Some(on), 1) => Kind::SetsAutocommit(on),
        (_, 0) => Kind::Writes,
        _ if names.iter().any(|name| name == "autocommit") => Kind::Writes,
        _ => Kind::Sets(format!("set {}", names.join(","))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(sql: &str) -> Kind {
        kind(sql.as_bytes())
    }

    #[test]
    fn reading_is_proven_by_known_functions() {
        for sql in [
            "SELECT 1",
            "select c from t where id=1",
            "  /* a comment */ SELECT COUNT(*), sum(a) FROM t -- end",
            "(SELECT 1) UNION (SELECT 2)",
            "SELECT a FROM t WHERE b IN (1,2) AND c = 'it''s; FOR UPDATE'",
            "SELECT `update` FROM `into`",
            "SELECT update_time FROM t",
            "SHOW TABLES",
            "EXPLAIN SELECT 1",
            "SELECT DISTINCT c FROM sbtest1 WHERE id BETWEEN 1 AND 2 ORDER BY c",
        ] {
            assert_eq!(of(sql), Kind::Reads, "{sql}");
        }
    }

    #[test]
    fn what_is_not_proven_to_read_may_write() {
        for sql in [
            "SELECT * FROM t FOR UPDATE",
            "SELECT * FROM t LOCK IN SHARE MODE",
            "SELECT a INTO @x FROM t",
            "SELECT @x := 1",
            "SELECT GET_LOCK('a', 1)",
            "SELECT NEXTVAL(s)",
            "SELECT NEXT VALUE FOR s",
            "SELECT LAST_INSERT_ID(5)",
            "SELECT my_function (1)",
            "SELECT `count`(1)",
            "SELECT db.count(1)",
            "SELECT /*! my_function(1) */ 1",
            "SELECT 'a\\' , f(), '",
            "INSERT INTO t VALUES (1)",
            "CALL p()",
            "EXECUTE s",
            "SET GLOBAL a = 1",
            "SET @x = (SELECT 1)",
            "SET TRANSACTION READ ONLY",
            "WITH a AS (SELECT 1) UPDATE t SET b=1",
            "XA START 'x'",
            "SAVEPOINT a",
            "ROLLBACK TO a",
            "CREATE TEMPORARY TABLE t (a int)",
            "",
        ] {
            assert_eq!(of(sql), Kind::Writes, "{sql}");
        }
    }

    #[test]
    fn sessions_and_transactions_are_followed() {
        assert_eq!(of("BEGIN"), Kind::Begin);
        assert_eq!(of("start  transaction read only"), Kind::Begin);
        assert_eq!(of("COMMIT AND CHAIN"), Kind::Commit);
        assert_eq!(of("rollback"), Kind::Rollback);
        assert_eq!(of("USE db"), Kind::Sets("use".into()));
        assert_eq!(of("SET NAMES utf8mb4"), Kind::Sets("set names".into()));
        assert_eq!(of("SET @@session.b=2, a = 1"), of("set a=5, b=3"));
        assert_eq!(of("SET SESSION sql_mode='x'"), Kind::Sets("set sql_mode".into()));
        assert_eq!(of("set @x = 5"), Kind::Sets("set x".into()));
        assert_eq!(of("SET autocommit=0"), Kind::SetsAutocommit(false));
        assert_eq!(of("set @@autocommit = ON"), Kind::SetsAutocommit(true));
        assert_eq!(of("set @@global.x = ON"), Kind::Writes);
        assert_eq!(of("PREPARE s FROM 'SELECT 1'"), Kind::Sets("prepare s".into()));
        assert_eq!(of("load data local infile 'a' into table t"), Kind::LoadsLocal);
        assert_eq!(of("DROP TABLE t"), Kind::WritesAlone);
        assert_eq!(of("KILL 5"), Kind::Administers);
        assert_eq!(of("STOP SLAVE"), Kind::Administers);
    }

    #[test]
    fn statements_are_separated_outside_of_strings() {
        let sql = b"BEGIN; INSERT INTO t VALUES ('a;b', \"c;\", `d;`) /* ; */; COMMIT; ";
        let found: Vec<_> = statements(sql).into_iter().map(kind).collect();
        assert_eq!(found, [Kind::Begin, Kind::Writes, Kind::Commit]);
    }
}
