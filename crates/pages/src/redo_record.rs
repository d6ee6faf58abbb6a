//! Redo records: changes of one page, by key and never by position in it.
//!
//! The paper's *physiological* records. A record that replaces the whole page ([`Op::Format`] and
//! its like) makes everything older of that page superfluous, its image in storage included. Bytes:
//! `docs/format/pages.md`.

use base::varint;

use crate::page::{BODY_BYTES, Cell, Kind, Meta, Page, Place};
use crate::position::{LogOffset, PageId};

/// A change of one page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op<'a> {
    /// The page becomes a leaf or branch with these cells.
    Format { kind: Kind, level: u8, cells: &'a [u8] },
    /// The page becomes a part of a large value.
    Overflow { next: u64, part: &'a [u8] },
    /// The page becomes a free one.
    Free { next: u64 },
    /// The page becomes the meta page.
    Meta(Meta),
    /// Inserts a cell, or replaces the one with its key.
    Put(Cell<'a>),
    /// Changes some bytes of a key's value. Each run has its distance from the end of the previous
    /// one, and its bytes. A put of a value of the same length is logged as this.
    Patch { key: &'a [u8], runs: &'a [u8] },
    /// Removes the cell of this key.
    Remove { key: &'a [u8] },
    /// Removes every cell from this key on: the left half of a split.
    CutFrom { key: &'a [u8] },
    /// Inserts these cells above all existing ones: the left half of a merge.
    Append { cells: &'a [u8] },
}

const FORMAT: u8 = 1;
const OVERFLOW: u8 = 2;
const FREE: u8 = 3;
const META: u8 = 4;
const PUT: u8 = 5;
const PUT_OVERFLOW: u8 = 6;
const REMOVE: u8 = 7;
const CUT_FROM: u8 = 8;
const APPEND: u8 = 9;
const PATCH: u8 = 10;

/// Runs with fewer equal bytes between them are merged.
const RUN_GAP_BYTES: usize = 4;

/// Appends a cell to a list of cells.
pub(crate) fn put_cell(out: &mut Vec<u8>, cell: &Cell<'_>) {
    out.push(u8::from(cell.is_overflow));
    varint::put_bytes(out, cell.key);
    varint::put_bytes(out, cell.value);
}

fn take_cell<'a>(input: &mut &'a [u8]) -> Option<Cell<'a>> {
    let (flag, rest) = input.split_first()?;
    *input = rest;
    let is_overflow = match flag {
        0 => false,
        1 => true,
        _ => return None,
    };
    let key = varint::take_bytes(input)?;
    let value = varint::take_bytes(input)?;
    Some(Cell { key, value, is_overflow })
}

/// Whether the bytes of a record are of one that replaces the whole page.
pub(crate) fn is_whole(bytes: &[u8]) -> bool {
    matches!(bytes.first(), Some(&(FORMAT | OVERFLOW | FREE | META)))
}

impl<'a> Op<'a> {
    /// Appends the record to `out`.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Format { kind, level, cells } => {
                out.extend_from_slice(&[FORMAT, kind.byte(), *level]);
                out.extend_from_slice(cells);
            }
            Self::Overflow { next, part } => {
                out.push(OVERFLOW);
                varint::put(out, *next);
                out.extend_from_slice(part);
            }
            Self::Free { next } => {
                out.push(FREE);
                varint::put(out, *next);
            }
            Self::Meta(meta) => {
                out.push(META);
                varint::put(out, meta.page_count);
                varint::put(out, meta.free_head);
                varint::put(out, meta.free_count);
            }
            Self::Put(cell) => {
                out.push(if cell.is_overflow { PUT_OVERFLOW } else { PUT });
                varint::put_bytes(out, cell.key);
                out.extend_from_slice(cell.value);
            }
            Self::Patch { key, runs } => {
                out.push(PATCH);
                varint::put_bytes(out, key);
                out.extend_from_slice(runs);
            }
            Self::Remove { key } => {
                out.push(REMOVE);
                out.extend_from_slice(key);
            }
            Self::CutFrom { key } => {
                out.push(CUT_FROM);
                out.extend_from_slice(key);
            }
            Self::Append { cells } => {
                out.push(APPEND);
                out.extend_from_slice(cells);
            }
        }
    }

    /// Decodes a record from exactly these bytes; `None` if they are invalid.
    pub(crate) fn decode(bytes: &'a [u8]) -> Option<Self> {
        let (tag, mut rest) = bytes.split_first()?;
        Some(match *tag {
            FORMAT => {
                let [kind, level, ..] = *rest else { return None };
                let kind = match kind {
                    2 => Kind::Leaf,
                    3 => Kind::Branch,
                    _ => return None,
                };
                Self::Format { kind, level, cells: &rest[2..] }
            }
            OVERFLOW => Self::Overflow { next: varint::take(&mut rest)?, part: rest },
            FREE => Self::Free { next: varint::take(&mut rest).filter(|_| rest.is_empty())? },
            META => {
                let page_count = varint::take(&mut rest)?;
                let free_head = varint::take(&mut rest)?;
                let free_count = varint::take(&mut rest).filter(|_| rest.is_empty())?;
                Self::Meta(Meta { page_count, free_head, free_count })
            }
            PUT | PUT_OVERFLOW => {
                let key = varint::take_bytes(&mut rest)?;
                Self::Put(Cell { key, value: rest, is_overflow: *tag == PUT_OVERFLOW })
            }
            PATCH => Self::Patch { key: varint::take_bytes(&mut rest)?, runs: rest },
            REMOVE => Self::Remove { key: rest },
            CUT_FROM => Self::CutFrom { key: rest },
            APPEND => Self::Append { cells: rest },
            _ => return None,
        })
    }

    /// Whether the previous contents of the page do not matter.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(
            self,
            Self::Format { .. } | Self::Overflow { .. } | Self::Free { .. } | Self::Meta(_)
        )
    }

    /// Applies the change to the page. An error means that the record does not belong to this page.
    /// `place` is the place of the record's key if the caller has searched for it and changed
    /// nothing since.
    pub(crate) fn apply(
        &self,
        page: &mut Page,
        id: PageId,
        offset: LogOffset,
        place: Option<Place>,
    ) -> Result<(), &'static str> {
        if !self.is_whole() && !matches!(page.kind(), Some(Kind::Leaf | Kind::Branch)) {
            return Err("a record changes cells of a page without cells");
        }
        match self {
            Self::Format { kind, level, cells } => {
                page.format(id, *kind, *level, 0);
                put_all(page, cells)?;
            }
            Self::Overflow { next, part } => {
                if part.len() > BODY_BYTES {
                    return Err("a part of a value does not fit a page");
                }
                page.format(id, Kind::Overflow, 0, *next);
                page.set_overflow(part);
            }
            Self::Free { next } => page.format(id, Kind::Free, 0, *next),
            Self::Meta(meta) => page.set_meta(id, *meta),
            Self::Put(cell) => put(page, place, cell)?,
            Self::Patch { key, runs } => patch(page, key, runs)?,
            Self::Remove { key } => match place.unwrap_or_else(|| page.search(key)) {
                Ok(i) => page.remove_at(i),
                Err(_) => return Err("a record removes a missing key"),
            },
            Self::CutFrom { key } => {
                let i = page.search(key).unwrap_or_else(|i| i);
                page.truncate(i);
            }
            Self::Append { cells } => put_all(page, cells)?,
        }
        page.set_log_offset(offset);
        Ok(())
    }
}

fn put(page: &mut Page, place: Option<Place>, cell: &Cell<'_>) -> Result<(), &'static str> {
    let place = place.unwrap_or_else(|| page.search(cell.key));
    if cell.is_small() && page.put_at(place, cell) {
        return Ok(());
    }
    Err("the cell of a record does not fit the page")
}

/// Appends the runs that turn `old` into `new`, which has the same length.
pub(crate) fn put_runs(out: &mut Vec<u8>, old: &[u8], new: &[u8]) {
    let mut at = 0;
    while let Some(skip) = old[at..].iter().zip(&new[at..]).position(|(a, b)| a != b) {
        let start = at + skip;
        let mut last = start;
        while let Some(next) =
            (last + 1..new.len()).take(RUN_GAP_BYTES).find(|i| old[*i] != new[*i])
        {
            last = next;
        }
        varint::put(out, (start - at) as u64);
        varint::put_bytes(out, &new[start..=last]);
        at = last + 1;
    }
}

fn patch(page: &mut Page, key: &[u8], mut runs: &[u8]) -> Result<(), &'static str> {
    const WRONG: &str = "a record changes bytes that are not there";
    let i = page.search(key).map_err(|_| WRONG)?;
    let mut rest = page.value_mut(i);
    while !runs.is_empty() {
        let skip = varint::take(&mut runs).and_then(|skip| usize::try_from(skip).ok());
        let run = varint::take_bytes(&mut runs).ok_or(WRONG)?;
        let (_, from) = rest.split_at_mut_checked(skip.ok_or(WRONG)?).ok_or(WRONG)?;
        let (changed, after) = from.split_at_mut_checked(run.len()).ok_or(WRONG)?;
        changed.copy_from_slice(run);
        rest = after;
    }
    Ok(())
}

fn put_all(page: &mut Page, mut cells: &[u8]) -> Result<(), &'static str> {
    while !cells.is_empty() {
        let cell = take_cell(&mut cells).ok_or("a record has a list of cells that is none")?;
        put(page, None, &cell)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_is_decoded() {
        let mut cells = Vec::new();
        put_cell(&mut cells, &Cell { key: b"a", value: b"1", is_overflow: true });
        let meta = Meta { page_count: 300, free_head: 2, free_count: 1 };
        for op in [
            Op::Format { kind: Kind::Leaf, level: 0, cells: &cells },
            Op::Overflow { next: 9000, part: b"part" },
            Op::Free { next: 3 },
            Op::Meta(meta),
            Op::Put(Cell { key: b"key", value: b"", is_overflow: false }),
            Op::Put(Cell { key: b"", value: b"value", is_overflow: true }),
            Op::Patch { key: b"key", runs: &[2, 1, b'x'] },
            Op::Remove { key: b"key" },
            Op::CutFrom { key: b"key" },
            Op::Append { cells: &cells },
        ] {
            let mut bytes = Vec::new();
            op.encode(&mut bytes);
            assert_eq!(Op::decode(&bytes), Some(op));
        }
    }

    #[test]
    fn a_patch_makes_what_the_put_does() {
        let mut rng = env_sim::SimEntropy::new(2);
        for _ in 0..2000 {
            let len = usize::try_from(rng.below(60)).expect("small");
            let mut old = vec![0; len];
            env::Entropy::fill(&mut rng, &mut old);
            let mut new = old.clone();
            for _ in 0..rng.below(5) {
                let at = usize::try_from(rng.below(60)).expect("small");
                new.iter_mut().skip(at).take(3).for_each(|byte| *byte ^= 1);
            }
            let mut runs = Vec::new();
            put_runs(&mut runs, &old, &new);
            let mut page = Page::blank();
            page.format(PageId(3), Kind::Leaf, 0, 0);
            assert!(page.put(&Cell { key: b"k", value: &old, is_overflow: false }));
            let op = Op::Patch { key: b"k", runs: &runs };
            assert_eq!(op.apply(&mut page, PageId(3), LogOffset(1), None), Ok(()));
            assert_eq!(page.cell(0).value, new);
        }
    }

    #[test]
    fn any_bytes_are_a_record_or_refused() {
        let mut rng = env_sim::SimEntropy::new(1);
        for _ in 0..20_000 {
            let len = usize::try_from(rng.below(40)).expect("small");
            let mut bytes = vec![0; len];
            env::Entropy::fill(&mut rng, &mut bytes);
            if let Some(first) = bytes.first_mut() {
                *first %= 12;
            }
            let mut page = Page::blank();
            page.format(PageId(3), Kind::Leaf, 0, 0);
            assert!(page.put(&Cell { key: b"b", value: b"", is_overflow: false }));
            if let Some(op) = Op::decode(&bytes) {
                let _either = op.apply(&mut page, PageId(3), LogOffset(1), None);
            }
        }
    }
}
