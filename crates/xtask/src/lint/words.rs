//! Words that comments and documents do without: they name no actor, or sound translated.
//!
//! ```text
//!   comments of crates/*/**/*.rs ─┐
//!                                 ├─► areas (a crate, the documents) ─► clean: error at each
//!   *.md ─────────────────────────┘                                     not yet: one warning with counts
//! ```
//!
//! An area that has none of the words stays so; one that still has some is listed in
//! `policy::AREAS_WITH_WORDS` and only counted. Code between backquotes, targets of links and fenced
//! blocks of a document are quotations and do not count.

use super::policy::{AREAS_WITH_WORDS, WORDS};
use super::source::Source;
use super::{Finding, Severity, sorted_entries};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// The area of everything that is no crate.
const DOCUMENTS: &str = "documents";

/// A listed word and where it stands.
struct Hit {
    word: &'static str,
    file: PathBuf,
    line: usize,
}

/// Checks the comments of all Rust files and all Markdown documents below `root`.
///
/// # Errors
/// When a document cannot be read.
pub(super) fn check(root: &Path, sources: &[Source]) -> io::Result<Vec<Finding>> {
    let mut areas: BTreeMap<String, Vec<Hit>> = BTreeMap::new();
    for source in sources {
        let hits = areas.entry(source.krate.clone()).or_default();
        for (line, comment) in comments(&source.text) {
            hits.extend(hits_in(&comment).map(|word| Hit {
                word,
                file: source.shown.clone(),
                line,
            }));
        }
    }
    let mut documents = Vec::new();
    find_documents(root, root, &mut documents)?;
    for shown in documents {
        let text = std::fs::read_to_string(root.join(&shown))?;
        let hits = areas.entry(DOCUMENTS.to_owned()).or_default();
        for (line, prose) in prose(&text) {
            hits.extend(hits_in(prose).map(|word| Hit { word, file: shown.clone(), line }));
        }
    }
    Ok(areas.iter().flat_map(|(area, hits)| judge(area, hits)).collect())
}

fn judge(area: &str, hits: &[Hit]) -> Vec<Finding> {
    let place = if area == DOCUMENTS { PathBuf::new() } else { PathBuf::from("crates").join(area) };
    let still_counted = AREAS_WITH_WORDS.contains(&area);
    if !still_counted {
        let error = |hit: &Hit| Finding {
            severity: Severity::Error,
            file: hit.file.clone(),
            what: format!("line {}: `{}`: {ADVICE}", hit.line, hit.word),
        };
        return hits.iter().map(error).collect();
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for hit in hits {
        *counts.entry(hit.word).or_default() += 1;
    }
    let what = match hits {
        [] => format!("`{area}` has no listed words left: take it out of AREAS_WITH_WORDS"),
        [first, ..] => {
            let counts: Vec<String> =
                counts.iter().map(|(word, count)| format!("{word} {count}")).collect();
            format!(
                "`{area}` has {} listed words ({}), the first in {}:{}",
                hits.len(),
                counts.join(", "),
                first.file.display(),
                first.line
            )
        }
    };
    vec![Finding { severity: Severity::Warning, file: place, what }]
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
    fn a_clean_area_fails_and_a_listed_one_is_counted() {
        let hit = || Hit { word: "nobody", file: PathBuf::from("crates/x/src/lib.rs"), line: 7 };
        let errors = judge("a crate that is not listed", &[hit(), hit()]);
        assert_eq!(errors.iter().filter(|finding| finding.severity == Severity::Error).count(), 2);
        let listed = AREAS_WITH_WORDS[0];
        let counted = judge(listed, &[hit(), hit()]);
        assert!(counted.len() == 1 && counted[0].severity == Severity::Warning);
        assert!(counted[0].what.contains("nobody 2"), "{}", counted[0]);
        assert!(judge(listed, &[])[0].what.contains("take it out"));
    }

    #[test]
    fn fenced_blocks_are_quotations() {
        let text = "one\n```sh\nwho\n```\ntwo\n";
        assert_eq!(prose(text).collect::<Vec<_>>(), [(1, "one"), (5, "two")]);
    }
}
