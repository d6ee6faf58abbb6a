//! The translation layer: where each logical page is, and garbage collection.

/// An operation on a logical page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read(usize),
    Write(usize),
    /// The page's contents are no longer needed.
    Trim(usize),
}

/// The times of flash operations, in microseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Costs {
    pub(super) read_us: f64,
    pub(super) program_us: f64,
    pub(super) erase_us: f64,
}

/// The operations performed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) host_reads: u64,
    pub(super) host_writes: u64,
    /// Pages read, including those that garbage collection copies.
    pub(super) reads: u64,
    /// Pages programmed, copies included.
    pub(super) programs: u64,
    pub(super) erases: u64,
}

impl Counts {
    pub(super) fn since(self, before: Self) -> Self {
        Self {
            host_reads: self.host_reads - before.host_reads,
            host_writes: self.host_writes - before.host_writes,
            reads: self.reads - before.reads,
            programs: self.programs - before.programs,
            erases: self.erases - before.erases,
        }
    }

    /// Sums the operations one after another: several channels would make a device faster, equally
    /// for all.
    #[expect(clippy::cast_precision_loss, reason = "counts of a model, for people and plots")]
    pub(super) fn time_us(self, costs: Costs) -> f64 {
        self.reads as f64 * costs.read_us
            + self.programs as f64 * costs.program_us
            + self.erases as f64 * costs.erase_us
    }
}

/// Garbage collection begins below this number of free blocks: one to copy to, one to write to.
const FREE_BLOCKS_MIN: usize = 2;

#[derive(Debug, Clone, Default)]
struct Block {
    /// The logical page for which each page was programmed; valid while the map agrees.
    pages: Vec<usize>,
    valid: usize,
    erases: u64,
}

/// A flash device.
pub(super) struct Device {
    /// The block and page of each logical page.
    map: Vec<Option<(usize, usize)>>,
    blocks: Vec<Block>,
    free: Vec<usize>,
    open: usize,
    block_pages: usize,
    counts: Counts,
}

impl Device {
    /// Creates a device for `logical_pages` logical pages.
    #[expect(clippy::cast_possible_truncation, reason = "as many blocks as a model can have")]
    #[expect(clippy::cast_precision_loss, clippy::cast_sign_loss, reason = "as above")]
    pub(super) fn new(logical_pages: usize, block_pages: usize, spare_percent: f64) -> Self {
        let needed = logical_pages.div_ceil(block_pages);
        let spare = (needed as f64 * spare_percent / 100.0).ceil() as usize;
        // With fewer, garbage collection could run out of space for its copies.
        let count = needed + spare.max(FREE_BLOCKS_MIN + 1);
        let mut free: Vec<usize> = (0..count).rev().collect();
        let open = free.pop().expect("there are at least three");
        Self {
            map: vec![None; logical_pages],
            blocks: vec![Block::default(); count],
            free,
            open,
            block_pages,
            counts: Counts::default(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) fn block_count(&self) -> usize {
        self.blocks.len()
    }

    pub(super) fn access(&mut self, access: Access) {
        match access {
            Access::Read(page) => self.read(page),
            Access::Write(page) => self.write(page),
            Access::Trim(page) => self.forget(page),
        }
    }

    /// A page that was never written is not read from flash.
    fn read(&mut self, page: usize) {
        self.counts.host_reads += 1;
        self.counts.reads += u64::from(self.map[page].is_some());
    }

    pub(super) fn write(&mut self, page: usize) {
        self.counts.host_writes += 1;
        self.forget(page);
        self.program(page);
        while self.free.len() < FREE_BLOCKS_MIN {
            self.collect();
        }
    }

    fn forget(&mut self, page: usize) {
        if let Some((block, _)) = self.map[page].take() {
            self.blocks[block].valid -= 1;
        }
    }

    fn program(&mut self, page: usize) {
        if self.blocks[self.open].pages.len() == self.block_pages {
            self.open = self.free.pop().expect("collection keeps blocks free");
        }
        let block = &mut self.blocks[self.open];
        self.map[page] = Some((self.open, block.pages.len()));
        block.pages.push(page);
        block.valid += 1;
        self.counts.programs += 1;
    }

    /// Frees the full block with the fewest valid pages.
    fn collect(&mut self) {
        let is_full = |block: &&usize| self.blocks[**block].pages.len() == self.block_pages;
        let candidates: Vec<usize> = (0..self.blocks.len()).filter(|&b| b != self.open).collect();
        let victim = candidates.iter().filter(is_full).min_by_key(|&&b| self.blocks[b].valid);
        let &victim = victim.expect("blocks that are neither free nor open are full");
        for (at, page) in std::mem::take(&mut self.blocks[victim].pages).into_iter().enumerate() {
            if self.map[page] == Some((victim, at)) {
                self.counts.reads += 1;
                self.map[page] = None;
                self.program(page);
            }
        }
        let block = &mut self.blocks[victim];
        block.valid = 0;
        block.erases += 1;
        self.counts.erases += 1;
        self.free.push(victim);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn writing_once_costs_one_program_a_page_and_no_erase() {
        let mut device = Device::new(8, 4, 0.0);
        (0..8).for_each(|page| device.write(page));
        let counts = device.counts();
        assert_eq!((counts.host_writes, counts.programs, counts.erases), (8, 8, 0));
    }

    /// Two blocks of data and three spare ones of two pages: computed by hand.
    #[test]
    fn garbage_collection_takes_the_block_with_the_least_valid_pages() {
        let mut device = Device::new(4, 2, 0.0);
        assert_eq!(device.block_count(), 5);
        // Blocks 0 and 1 hold pages 0 1 and 2 3; block 2 gets 0 0, block 3 is open with 0 0, and
        // then one block is free.
        for page in [0, 1, 2, 3, 0, 0, 0] {
            device.write(page);
        }
        // Blocks: [0 1] [2 3] [0 0] [0]; one is free, one too few. Block 2 has no valid page: it is
        // erased, nothing is copied.
        let counts = device.counts();
        assert_eq!((counts.programs, counts.erases), (7, 1));
        assert_eq!(device.blocks[2].erases, 1);
        device.write(2);
        device.write(0);
        // [0 1]: page 1 is valid. [2 3]: page 3. [0 2] is open and full, so another block is
        // opened, and a block with one valid page is copied.
        let counts = device.counts();
        assert_eq!(counts.erases, 2);
        assert_eq!((counts.host_writes, counts.programs), (9, 10));
    }

    #[test]
    fn trimmed_pages_are_not_copied() {
        let mut device = Device::new(4, 2, 0.0);
        (0..4).for_each(|page| device.write(page));
        (0..4).for_each(|page| device.access(Access::Trim(page)));
        (0..40).for_each(|_| device.write(0));
        let counts = device.counts();
        assert_eq!(counts.programs, counts.host_writes);
    }

    #[test]
    fn time_is_the_sum_of_what_was_done() {
        let counts = Counts { reads: 2, programs: 3, erases: 1, ..Counts::default() };
        let costs = Costs { read_us: 1.0, program_us: 10.0, erase_us: 100.0 };
        assert!((counts.time_us(costs) - 132.0).abs() < 1e-9);
    }

    proptest! {
        /// Whatever the operations, every page written and not trimmed is where the map says, and
        /// programs and erases add up.
        #[test]
        fn nothing_is_lost(
            logical in 1_usize..60,
            block_pages in 1_usize..9,
            accesses in proptest::collection::vec((0_u8..8, 0_usize..60), 0..600),
        ) {
            let mut device = Device::new(logical, block_pages, 7.0);
            let mut is_there = vec![false; logical];
            for (what, page) in accesses {
                let page = page % logical;
                match what {
                    0 => { device.access(Access::Trim(page)); is_there[page] = false; }
                    1 => device.access(Access::Read(page)),
                    _ => { device.access(Access::Write(page)); is_there[page] = true; }
                }
            }
            for (page, &is_there) in is_there.iter().enumerate() {
                let at = device.map[page];
                prop_assert_eq!(at.is_some(), is_there);
                if let Some((block, slot)) = at {
                    prop_assert_eq!(device.blocks[block].pages[slot], page);
                }
            }
            let valid: usize = device.blocks.iter().map(|block| block.valid).sum();
            prop_assert_eq!(valid, is_there.iter().filter(|&&there| there).count());
            let counts = device.counts();
            prop_assert_eq!(counts.erases, device.blocks.iter().map(|b| b.erases).sum::<u64>());
            // A programmed page is still in a block, or was erased with a full one.
            let held: usize = device.blocks.iter().map(|block| block.pages.len()).sum();
            let erased = counts.erases * block_pages as u64;
            prop_assert_eq!(counts.programs, held as u64 + erased);
            prop_assert!(device.free.iter().all(|&free| device.blocks[free].pages.is_empty()));
        }
    }
}
