//! Words that comments and documents do without: they name no actor, or sound translated.
//!
//! Each is an error, in the comments of Rust files and in Markdown documents. Code between backquotes,
//! targets of links and fenced blocks of a document are quotations and do not count.

use super::policy::WORDS;
use super::source::Source;
use super::{Finding, Severity, sorted_entries};
use std::io;
use std::path::{Path, PathBuf};

/// Checks the comments of all Rust files and all Markdown documents below `root`.
///
/// # Errors
/// When a document cannot be read.
pub(super) fn check(root: &Path, sources: &[Source]) -> io::Result<Vec<Finding>> {
    let mut findings = Vec::new();
    for source in sources {
        for (line, comment) in comments(&source.text) {
            findings.extend(hits_in(&comment).map(|word| finding(word, &source.shown, line)));
        }
    }
    let mut documents = Vec::new();
    find_documents(root, root, &mut documents)?;
    for shown in documents {
        let text = std::fs::read_to_string(root.join(&shown))?;
        for (line, prose) in prose(&text) {
            findings.extend(hits_in(prose).map(|word| finding(word, &shown, line)));
        }
    }
    Ok(findings)
}

fn finding(word: &'static str, file: &Path, line: usize) -> Finding {
    Finding {
        severity: Severity::Error,
        file: file.to_owned(),
        what: format!("line {line}: `{word}`: {ADVICE}"),
    }
}

const ADVICE: &str = "name the actor, or say it in plain English (the list is in policy.rs)";

/// The listed words of a piece of prose.
fn hits_in(prose: &str) -> impl Iterator<Item = &'static str> {
    let plain: String = without_code(prose).to_lowercase();
    let bounded = move |word: &str| {
        let letter = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
        plain
            .match_indices(word)
            .filter(|(at, _)| {
                !letter(plain[..*at].chars().next_back())
                    && !letter(plain[at + word.len()..].chars().next())
            })
            .count()
    };
    WORDS.iter().flat_map(move |word| std::iter::repeat_n(*word, bounded(word)))
}

/// What neither stands between backquotes nor is the target of a link.
fn without_code(prose: &str) -> String {
    let plain: String = prose.split('`').step_by(2).collect::<Vec<_>>().join(" ");
    let mut parts = plain.split("](");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        out.push_str(part.split_once(')').map_or(part, |(_target, rest)| rest));
    }
    out
}

/// The lines of a document outside its fenced blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

fn find_documents(root: &Path, directory: &Path, found: &mut Vec<PathBuf>) -> io::Result<()> {
    for path in sorted_entries(directory)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "data", "node_modules"].contains(&&*name) {
                find_documents(root, &path, found)?;
            }
        } else if name.ends_with(".md") {
            found.push(path.strip_prefix(root).unwrap_or(&path).to_owned());
        }
    }
    Ok(())
}

/// The comments of a Rust file, one entry a line. Knows strings, raw strings and characters, so that
/// two slashes in one of them begin no comment.
pub(super) fn comments(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let (mut rest, mut line) = (text, 1);
    let mut previous_is_word = false;
    while let Some(first) = rest.chars().next() {
        let length = if rest.starts_with("//") {
            let comment = rest.lines().next().unwrap_or_default();
            found.push((line, comment.to_owned()));
            comment.len()
        } else if rest.starts_with("/*") {
            let length = rest.find("*/").map_or(rest.len(), |end| end + 2);
            let lines = rest[..length].lines().enumerate();
            found.extend(lines.map(|(index, comment)| (line + index, comment.to_owned())));
            length
        } else if let Some(length) = raw_string(rest).filter(|_| !previous_is_word) {
            length
        } else if first == '"' {
            quoted(rest, '"')
        } else if first == '\'' {
            character(rest)
        } else {
            first.len_utf8()
        };
        previous_is_word = first.is_alphanumeric() || first == '_';
        line += rest[..length].matches('\n').count();
        rest = &rest[length..];
    }
    found
}

/// The length of a raw string at the beginning of the text, if one is there.
fn raw_string(text: &str) -> Option<usize> {
    let after = text.strip_prefix("br").or_else(|| text.strip_prefix('r'))?;
    let hashes = after.len() - after.trim_start_matches('#').len();
    let body = after[hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    let start = text.len() - body.len();
    Some(body.find(&end).map_or(text.len(), |at| start + at + end.len()))
}

/// The length of a string in quotes at the beginning of the text.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        if c == quote && !escaped {
            return at + 1;
        }
        escaped = c == '\\' && !escaped;
    }
    text.len()
}

/// The length of a character at the beginning of the text, or of the quote of a lifetime.
fn character(text: &str) -> usize {
    let mut chars = text.chars().skip(1);
    match (chars.next(), chars.next()) {
        (Some('\\'), _) => quoted(text, '\''),
        (Some(c), Some('\'')) => 2 + c.len_utf8(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_whole_and_outside_of_code() {
        let all = |prose: &str| hits_in(prose).collect::<Vec<_>>();
        assert_eq!(all("Whoever asks, and who does not"), ["who", "whoever"]);
        assert_eq!(all("nobody's business comes to\u{a0}nothing"), ["nobody"]);
        assert_eq!(all("the whole besides, `who` and whom_ever"), Vec::<&str>::new());
        assert_eq!(all("It comes to nothing."), ["comes to nothing"]);
        assert_eq!(all("see [this](beside) and [that](who/nobody), nobody"), ["nobody"]);
    }

    #[test]
    fn only_comments_are_read() {
        let text = "//! one\nlet a = \"// not\"; // two\nlet b = r#\"\"// not\"#; /* three\nfour */\n\
            let c = '\"'; // five\nfn f<'a>() {} /// six\nlet d = '\\''; let e = b'/'; // seven\n";
        let found: Vec<(usize, String)> = comments(text);
        let words: Vec<(usize, &str)> = found
            .iter()
            .map(|(line, text)| (*line, text.trim_matches(['/', '!', '*', ' '])))
            .collect();
        let expected = [
            (1, "one"),
            (2, "two"),
            (3, "three"),
            (4, "four"),
            (5, "five"),
            (6, "six"),
            (7, "seven"),
        ];
        assert_eq!(words, expected);
    }

    #[test]
    fn a_listed_word_is_an_error_where_it_stands() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("notes.md"), "fine\nnobody reads `nobody`\n").unwrap();
        let findings = check(root.path(), &[]).unwrap();
        assert_eq!(findings.len(), 1);
        assert_eq!(
            (findings[0].severity, findings[0].file.as_path()),
            (Severity::Error, Path::new("notes.md"))
        );
        assert!(findings[0].what.starts_with("line 2: `nobody`"), "{}", findings[0]);
    }

    #[test]
    fn fenced_blocks_are_quotations() {
        let text = "one\n```sh\nwho\n```\ntwo\n";
        assert_eq!(prose(text).collect::<Vec<_>>(), [(1, "one"), (5, "two")]);
    }
}
