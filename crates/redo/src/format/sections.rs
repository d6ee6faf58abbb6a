//! A file's body as sections, each with a name, so that a later program can add one.
//!
//! ```text
//!   tag (4 letters) · flags (4) · length (8) · content      and the next one behind it
//! ```
//!
//! A program that does not know a section skips it, and what it writes is without it. A section
//! that must not be lost or overlooked has the flag [`MUST_KNOW`]: then such a program refuses the
//! file and names the section. So a section that is newer than others is written only when it says
//! something, and has the flag only when an older program must not go on without it.

use std::path::Path;

use base::bytes::{array_at, u32_at, u64_at};

use crate::error::{Error, Result};

/// The name of a section.
pub(crate) type Tag = [u8; 4];

/// The flag of a section that no program may overlook.
const MUST_KNOW: u32 = 1;

const HEAD_BYTES: usize = 16;

/// Appends a section that every program must know.
pub(crate) fn put(out: &mut Vec<u8>, tag: Tag, content: &[u8]) {
    put_with(out, tag, MUST_KNOW, content);
}

/// Appends a section that a program which does not know it leaves out.
pub(crate) fn put_skippable(out: &mut Vec<u8>, tag: Tag, content: &[u8]) {
    put_with(out, tag, 0, content);
}

fn put_with(out: &mut Vec<u8>, tag: Tag, flags: u32, content: &[u8]) {
    out.extend_from_slice(&tag);
    out.extend_from_slice(&flags.to_le_bytes());
    out.extend_from_slice(&(content.len() as u64).to_le_bytes());
    out.extend_from_slice(content);
}

/// The contents of the sections `tags` in `body`; `None` if one of the first `required` of them is
/// missing, if one is there twice, or if the body is not made of sections. Others that are missing
/// are empty.
///
/// # Errors
/// When `file` has another section that must be known.
pub(crate) fn take<'a, const N: usize>(
    tags: [Tag; N],
    required: usize,
    mut body: &'a [u8],
    file: &Path,
) -> Result<Option<[&'a [u8]; N]>> {
    let mut found = [None; N];
    while !body.is_empty() {
        let Some((tag, flags, content, rest)) = split(body) else { return Ok(None) };
        body = rest;
        match tags.iter().position(|known| *known == tag) {
            Some(at) if found[at].is_none() => found[at] = Some(content),
            Some(_) => return Ok(None),
            None if flags & MUST_KNOW != 0 => {
                let section = tag.escape_ascii().to_string();
                return Err(Error::UnknownSection { path: file.to_owned(), section });
            }
            None => {}
        }
    }
    if found[..required].contains(&None) {
        return Ok(None);
    }
    Ok(Some(found.map(Option::unwrap_or_default)))
}

/// The first section: its tag, its flags, its content, and what comes behind it.
fn split(body: &[u8]) -> Option<(Tag, u32, &[u8], &[u8])> {
    let (head, rest) = body.split_at_checked(HEAD_BYTES)?;
    let len = usize::try_from(u64_at(head, 8)).ok()?;
    let (content, rest) = rest.split_at_checked(len)?;
    let tag = array_at(head, 0);
    Some((tag, u32_at(head, 4), content, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    const KNOWN: [Tag; 2] = [*b"AAAA", *b"BBBB"];

    fn with_flags(tag: Tag, flags: u8, content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, tag, content);
        out[4] = flags;
        out
    }

    fn take_known(body: &[u8]) -> Result<Option<[&[u8]; 2]>> {
        take(KNOWN, 2, body, Path::new("f"))
    }

    #[test]
    fn sections_come_in_any_order_between_others_that_may_be_skipped() {
        let (a, b) = (with_flags(*b"AAAA", 1, b"1"), with_flags(*b"BBBB", 1, b""));
        let other = with_flags(*b"ZZZZ", 0, b"later");
        let body = [&b[..], &other, &a, &other].concat();
        assert_eq!(take_known(&body).unwrap(), Some([&b"1"[..], b""]));
    }

    #[test]
    fn an_unknown_section_that_must_be_known_is_refused_by_name() {
        let (a, b) = (with_flags(*b"AAAA", 1, b"1"), with_flags(*b"BBBB", 1, b""));
        let body = [&a[..], &b, &with_flags(*b"HIST", 1, b"x")].concat();
        let error = take_known(&body).unwrap_err().to_string();
        assert!(error.contains("HIST") && error.contains("newer program"), "{error}");
    }

    #[test]
    fn what_need_not_be_there_is_empty() {
        let a = with_flags(*b"AAAA", 1, b"1");
        let found = take(KNOWN, 1, &a, Path::new("f")).unwrap();
        assert_eq!(found, Some([&b"1"[..], b""]));
        assert_eq!(take(KNOWN, 1, b"", Path::new("f")).unwrap(), None);
    }

    #[test]
    fn what_is_missing_twice_there_or_cut_off_makes_no_sense() {
        let (a, b) = (with_flags(*b"AAAA", 1, b"1"), with_flags(*b"BBBB", 1, b"22"));
        let whole = [&a[..], &b].concat();
        assert!(take_known(&whole).unwrap().is_some());
        for cut in 0..whole.len() {
            assert_eq!(take_known(&whole[..cut]).unwrap(), None, "cut at {cut}");
        }
        assert_eq!(take_known(&[&whole[..], &a].concat()).unwrap(), None);
        let mut endless = whole.clone();
        endless[8..16].fill(0xff);
        assert_eq!(take_known(&endless).unwrap(), None);
    }
}
