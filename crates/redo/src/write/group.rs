//! The blocks at the front of a flusher's queue that one write takes.

use std::collections::VecDeque;

use base::SegmentId;

use crate::shared::device::{Order, Shared};
use crate::shared::sealed_block::SealedBlock;

/// Blocks are gathered into one write up to this size; larger ones are written from where they are.
pub(crate) const GROUP_BYTES: usize = 256 << 10;

/// See the file's top.
#[derive(Clone, Copy)]
pub(crate) struct Group {
    pub(crate) block_count: usize,
    pub(crate) bytes: usize,
}

impl Group {
    /// Completes the blocks at the front that belong to `segment` and fit one write.
    pub(crate) fn complete(
        shared: &Shared,
        todo: &mut VecDeque<Order>,
        segment: SegmentId,
    ) -> Self {
        let durable_lsn = shared.durability.durable_lsn();
        let database_tag = shared.database.tag();
        let mut group = Self { block_count: 0, bytes: 0 };
        for order in todo {
            let Order::Block(block) = order else { break };
            if block.segment != segment
                || (group.block_count > 0 && group.bytes + block.buffer.len() > GROUP_BYTES)
            {
                break;
            }
            block.complete(database_tag, durable_lsn);
            group.bytes += block.buffer.len();
            group.block_count += 1;
        }
        group
    }

    /// Its blocks, which are still at the front.
    pub(crate) fn blocks(self, todo: &VecDeque<Order>) -> impl Iterator<Item = &SealedBlock> {
        todo.iter().take(self.block_count).filter_map(|order| match order {
            Order::Block(block) => Some(block),
            Order::Seal => None,
        })
    }

    /// Takes its blocks from the front.
    pub(crate) fn take(self, todo: &mut VecDeque<Order>) -> impl Iterator<Item = SealedBlock> {
        todo.drain(..self.block_count).filter_map(|order| match order {
            Order::Block(block) => Some(block),
            Order::Seal => None,
        })
    }
}
