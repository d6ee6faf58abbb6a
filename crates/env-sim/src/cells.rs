//! The flash of a simulated device: pages by place, in memory or in a file.
//!
//! ```text
//!   (file 7, page 0) ─► cell 3 ┐            ┌── cell 0 │ cell 1 │ cell 2 │ cell 3 ...
//!   (file 7, page 1) ─► cell 0 ┴─ the map ──┴─► 4 KiB each, in the order in which they were first used
//! ```
//!
//! As in a real device, the location of a page is internal: the map stays in the device's memory.

use std::collections::HashMap;

use env::File;

/// Bytes of a page.
pub(crate) const PAGE_BYTES: usize = 4096;
/// A page of a file: the file's number and the page's.
pub(crate) type Place = (u64, u64);
/// The contents of a page.
pub(crate) type Page = [u8; PAGE_BYTES];

/// Persistent pages.
pub(crate) enum Cells {
    /// In memory.
    Memory(HashMap<Place, Page>),
    /// In a file without other users.
    File {
        /// The cell of each page.
        map: HashMap<Place, u64>,
        /// The first unused cell.
        unused: u64,
        /// The cells.
        file: Box<dyn File>,
    },
}

impl Default for Cells {
    fn default() -> Self {
        Cells::Memory(HashMap::new())
    }
}

fn offset(cell: u64) -> u64 {
    cell * PAGE_BYTES as u64
}

impl Cells {
    /// Creates cells in an empty file.
    pub(crate) fn in_file(file: Box<dyn File>) -> Self {
        Cells::File { map: HashMap::new(), unused: 0, file }
    }

    /// Stores a page.
    ///
    /// # Panics
    /// If the file cannot be written: that is not a requested fault.
    pub(crate) fn program(&mut self, place: Place, page: &Page) {
        match self {
            Cells::Memory(pages) => {
                pages.insert(place, *page);
            }
            Cells::File { map, unused, file } => {
                let cell = *map.entry(place).or_insert_with(|| {
                    *unused += 1;
                    *unused - 1
                });
                file.write_all_at(page, offset(cell)).expect("the backing file can be written");
            }
        }
    }

    /// Returns what is stored for a page, if anything.
    ///
    /// # Panics
    /// If the file cannot be read.
    pub(crate) fn read(&self, place: Place) -> Option<Page> {
        match self {
            Cells::Memory(pages) => pages.get(&place).copied(),
            Cells::File { map, file, .. } => {
                let mut page = [0; PAGE_BYTES];
                let cell = *map.get(&place)?;
                file.read_exact_at(&mut page, offset(cell)).expect("the backing file can be read");
                Some(page)
            }
        }
    }

    /// Forgets everything stored for a file.
    pub(crate) fn forget(&mut self, file: u64) {
        match self {
            Cells::Memory(pages) => pages.retain(|place, _| place.0 != file),
            Cells::File { map, .. } => map.retain(|place, _| place.0 != file),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use env::Disk;

    use super::*;

    #[test]
    fn memory_and_file_store_the_same() {
        let disk = crate::SimDisk::new(1, crate::Faults::default());
        let file = disk.create(Path::new("/flash")).unwrap();
        for mut cells in [Cells::default(), Cells::in_file(file)] {
            cells.program((7, 1), &[1; PAGE_BYTES]);
            cells.program((7, 0), &[2; PAGE_BYTES]);
            cells.program((8, 0), &[3; PAGE_BYTES]);
            cells.program((7, 1), &[4; PAGE_BYTES]);
            let first = |cells: &Cells, place| cells.read(place).map(|page| page[0]);
            assert_eq!(first(&cells, (7, 1)), Some(4));
            assert_eq!(first(&cells, (7, 0)), Some(2));
            cells.forget(7);
            assert_eq!((first(&cells, (7, 1)), first(&cells, (8, 0))), (None, Some(3)));
        }
    }
}
