//! Blocks in memory, of all runs together, within a budget.
//!
//! Only blocks that were verified come in, and they never change, so nothing is written back. The
//! library's replacement (S3-FIFO) drops first what was used once.

use std::hash::{BuildHasherDefault, DefaultHasher};
use std::sync::Arc;

use quick_cache::Weighter;
use quick_cache::sync::{Cache, DefaultLifecycle};

/// What a block costs besides its bytes, which are an allocation of their own: an allocator gives 4096 bytes for
/// 4096, and 5120 for these and a count.
const OVERHEAD_BYTES: u64 = 128;

type CachedBlock = Arc<Box<[u8]>>;

#[derive(Debug, Clone, Copy)]
struct Weight;

impl Weighter<(u64, u32), CachedBlock> for Weight {
    fn weight(&self, _key: &(u64, u32), block: &CachedBlock) -> u64 {
        cost(block.len() as u64)
    }
}

const fn cost(block_bytes: u64) -> u64 {
    block_bytes + OVERHEAD_BYTES
}

/// The same for the same key at all times: what is dropped must not depend on chance, or a simulation is
/// not the same twice.
type Hasher = BuildHasherDefault<DefaultHasher>;

/// The cache, by run and number of the block.
pub(crate) struct BlockCache(Cache<(u64, u32), CachedBlock, Weight, Hasher>);

impl BlockCache {
    pub(crate) fn new(budget_bytes: u64, block_bytes: u32) -> Self {
        let blocks = budget_bytes / cost(u64::from(block_bytes));
        let blocks = usize::try_from(blocks).unwrap_or(usize::MAX);
        let (hasher, lifecycle) = (Hasher::default(), DefaultLifecycle::default());
        Self(Cache::with(blocks, budget_bytes, Weight, hasher, lifecycle))
    }

    pub(crate) fn get(&self, run: u64, block: u32) -> Option<CachedBlock> {
        self.0.get(&(run, block))
    }

    pub(crate) fn insert(&self, run: u64, block: u32, bytes: Box<[u8]>) {
        self.0.insert((run, block), Arc::new(bytes));
    }

    /// Changes the budget; blocks that do not fit go.
    pub(crate) fn set_budget(&self, budget_bytes: u64) {
        self.0.set_capacity(budget_bytes);
    }

    pub(crate) fn used_bytes(&self) -> u64 {
        self.0.weight()
    }
}

impl std::fmt::Debug for BlockCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes of blocks", self.used_bytes())
    }
}
