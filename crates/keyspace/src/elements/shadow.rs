//! The elements of a large hash, set or sorted set as they were when a walk came to it, or when it was
//! changed before that.
//!
//! ```text
//!   hashes   0 ──────────────── from ─────────────────────── 2^64
//!   table    emitted: changes    │ emitted as they are, but those whose name is in `touched`
//!            are of no concern   │
//!   touched                      │ ● moved here before its change     ○ added later: not emitted
//! ```
//!
//! The table is emitted first, then what was moved.
//!
//! # Invariants
//! - Each element as of the opening is in the table behind `from` under a name that is not touched, or
//!   in `touched`, or was emitted: exactly one of these.
//! - A name is touched once; what becomes of its element afterwards does not matter.

use crate::element::Element;
use crate::hasher::KeyHasher;
use crate::table::{Keyed, Table};
use crate::walk::Stream;

/// What a touched name takes besides its element.
const TOUCHED_BYTES: usize = 24;

/// See the file's top.
pub(super) struct Shadow {
    stage: Stage,
    bytes: usize,
}

enum Stage {
    /// The table from this hash on is to be emitted.
    Table { from: u64, touched: Table<Touched> },
    /// The table was emitted.
    Touched(Box<dyn Iterator<Item = Touched> + Send>),
}

struct Touched {
    element: Element,
    /// It was there when the shadow was opened.
    was_there: bool,
}

impl Touched {
    fn bytes(&self) -> usize {
        TOUCHED_BYTES + self.element.block_bytes()
    }
}

impl Keyed for Touched {
    fn key(&self) -> &[u8] {
        self.element.name()
    }
}

impl Shadow {
    pub(super) fn new() -> Self {
        Self { stage: Stage::Table { from: 0, touched: Table::new() }, bytes: 0 }
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the element with this name is to be kept before it changes.
    fn is_due(&self, hash: u64, name: &[u8]) -> bool {
        match &self.stage {
            Stage::Table { from, touched } => {
                hash >= *from && (touched.is_empty() || touched.find(hash, name).is_none())
            }
            Stage::Touched(_) => false,
        }
    }

    /// Gives an element another value and expiry. If it is to be kept, it moves, and another one takes its
    /// place.
    #[cold]
    pub(super) fn change(
        &mut self,
        hasher: KeyHasher,
        hash: u64,
        element: &mut Element,
        value: &[u8],
        expires_at_ms: Option<i64>,
    ) {
        if self.is_due(hash, element.name()) {
            let changed = Element::until(element.name(), value, expires_at_ms);
            let element = std::mem::replace(element, changed);
            self.touch(hasher, hash, Touched { element, was_there: true });
        } else {
            element.set(value, expires_at_ms);
        }
    }

    /// An element was removed.
    #[cold]
    pub(super) fn note_removed(&mut self, hasher: KeyHasher, hash: u64, element: Element) {
        if self.is_due(hash, element.name()) {
            self.touch(hasher, hash, Touched { element, was_there: true });
        }
    }

    /// An element with this name was added.
    #[cold]
    pub(super) fn note_added(&mut self, hasher: KeyHasher, hash: u64, name: &[u8]) {
        if self.is_due(hash, name) {
            let element = Element::new(name, &[]);
            self.touch(hasher, hash, Touched { element, was_there: false });
        }
    }

    fn touch(&mut self, hasher: KeyHasher, hash: u64, item: Touched) {
        if let Stage::Table { touched, .. } = &mut self.stage {
            self.bytes += item.bytes();
            touched.insert(hasher, hash, item);
        }
    }

    /// Emits further elements, those of `table` among them, until the step has done what it may. Whether
    /// these were the last.
    pub(super) fn emit(
        &mut self,
        table: &Table<Element>,
        hasher: KeyHasher,
        stream: &mut Stream,
    ) -> bool {
        while !stream.is_spent() {
            match &mut self.stage {
                Stage::Table { from, touched } => {
                    match emit_page(table, hasher, *from, touched, stream) {
                        Some(next) => *from = next,
                        None => {
                            let left = std::mem::replace(touched, Table::new()).into_items();
                            self.stage = Stage::Touched(Box::new(left));
                        }
                    }
                }
                Stage::Touched(left) => match left.next() {
                    None => return true,
                    Some(touched) => {
                        self.bytes -= touched.bytes();
                        if touched.was_there {
                            stream.element(&touched.element);
                        } else {
                            stream.note_look();
                        }
                    }
                },
            }
        }
        false
    }
}

/// Emits the elements of the page from `from` on, or some of them. Returns where to go on.
fn emit_page(
    table: &Table<Element>,
    hasher: KeyHasher,
    from: u64,
    touched: &Table<Touched>,
    stream: &mut Stream,
) -> Option<u64> {
    stream.note_look();
    let mut bytes = 0;
    let mut page: Vec<(u64, &Element)> = Vec::new();
    for element in table.page_items(from) {
        let hash = hasher.hash(element.name());
        let is_touched = || !touched.is_empty() && touched.find(hash, element.name()).is_some();
        if hash < from || is_touched() {
            stream.note_look();
            continue;
        }
        bytes += element.block_bytes();
        page.push((hash, element));
    }
    if bytes <= stream.work_left() {
        page.into_iter().for_each(|(_, element)| stream.element(element));
        return table.page_end(from);
    }
    // The page takes more than one step, so a hash must tell how far it was emitted.
    page.sort_unstable_by_key(|(hash, _)| *hash);
    let mut last = None;
    for (hash, element) in page {
        if stream.is_spent() && last.is_some_and(|last| last != hash) {
            return Some(hash);
        }
        stream.element(element);
        last = Some(hash);
    }
    table.page_end(from)
}
