//! Which images of segments there must be: what the manifest lists.
//!
//! Compaction makes gaps in the log legitimate, and a crash may leave any end of it torn; so a file
//! that is lost, or cut short, would look like something that is meant to be. The list tells:
//!
//! ```text
//!   made       the file, with its header, is durable       ─► listed, before its first block
//!   synced     blocks up to L in it are part of the durable prefix    ─► noted
//!   sealed     its footer is durable                                  ─► noted
//!   going      what is in it is elsewhere, or not needed   ─► off the list, before it is removed
//! ```
//!
//! What is listed must be there; what is there need not be listed. Notes go to disk with the next
//! write of the manifest, whatever that is for; before a compaction makes gaps legitimate it writes
//! one, so that below the horizon every block of an open file is noted.
//!
//! Blocks count as noted only once everything before them is durable: what a start may cut off is
//! never among them.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use base::{Lsn, SegmentId};

use crate::error::Error;
use crate::format::segment::SegmentHeader;

/// An image that must be there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Listed {
    /// The segment.
    pub segment: SegmentId,
    /// Its part.
    pub part: u32,
    /// A block that must be in it, [`Listed::SEALED`] for its footer, 0 for nothing but its header.
    pub last_lsn: Lsn,
}

impl Listed {
    /// The image is sealed.
    pub const SEALED: Lsn = Lsn(u64::MAX);

    /// Whether the image is sealed.
    #[must_use]
    pub fn is_sealed(&self) -> bool {
        self.last_lsn == Self::SEALED
    }

    /// Whether the image with this header is the one that is meant, or has taken its place.
    pub(crate) fn is_met_by(&self, header: &SegmentHeader) -> bool {
        // A compaction writes all parts of a segment into one.
        header.segment == self.segment
            && (header.part == self.part || (header.part == 0 && header.generation > 0))
    }

    /// That there is no such image.
    pub(crate) fn missing(&self, manifest: &Path) -> Error {
        let (segment, part) = (self.segment, self.part);
        Error::MissingSegment { segment, part, manifest: manifest.to_owned() }
    }
}

/// What is known of one image.
#[derive(Default)]
struct Facts {
    is_sealed: bool,
    /// The last block in it that is part of the durable prefix.
    durable: Lsn,
    /// Blocks that are synced, and something before them is not.
    beyond: VecDeque<Lsn>,
}

/// What is to be listed now.
#[derive(Default)]
pub(crate) struct Listing(BTreeMap<(SegmentId, u32), Facts>);

impl Listing {
    /// What the manifest of a log lists that was just opened.
    pub(crate) fn of(listed: &[Listed]) -> Self {
        let facts = |entry: &Listed| {
            let is_sealed = entry.is_sealed();
            let durable = if is_sealed { Lsn::ZERO } else { entry.last_lsn };
            ((entry.segment, entry.part), Facts { is_sealed, durable, beyond: VecDeque::new() })
        };
        Self(listed.iter().map(facts).collect())
    }

    /// The image is durable, without a block.
    pub(crate) fn note_made(&mut self, segment: SegmentId, part: u32) {
        self.0.insert((segment, part), Facts::default());
    }

    /// These blocks of the image are synced, and everything up to `durable` is.
    pub(crate) fn note_synced(
        &mut self,
        (segment, part): (SegmentId, u32),
        lsns: impl Iterator<Item = Lsn>,
        durable: Lsn,
    ) {
        let Some(facts) = self.0.get_mut(&(segment, part)) else { return };
        facts.beyond.extend(lsns);
        facts.settle(durable);
    }

    /// The image has its footer.
    pub(crate) fn note_sealed(&mut self, segment: SegmentId, part: u32) {
        let facts = Facts { is_sealed: true, ..Facts::default() };
        self.0.insert((segment, part), facts);
    }

    /// All that there is of the segment is one sealed image; whether that is news.
    pub(crate) fn note_whole(&mut self, segment: SegmentId) -> bool {
        let count = self.0.len();
        self.0.retain(|(id, part), _| *id != segment || *part == 0);
        let is_news = self.0.len() != count || !self.0.contains_key(&(segment, 0));
        self.note_sealed(segment, 0);
        is_news
    }

    /// Nothing of the segment needs to be there any more.
    pub(crate) fn note_gone(&mut self, segment: SegmentId) {
        self.0.retain(|(id, _), _| *id != segment);
    }

    /// The images that must be there, and whether each is sealed.
    pub(crate) fn images(&self) -> Vec<(SegmentId, u32, bool)> {
        self.0.iter().map(|((segment, part), facts)| (*segment, *part, facts.is_sealed)).collect()
    }

    /// The last block of an image that is not sealed which it must have, as everything up to `durable`
    /// is durable.
    pub(crate) fn last_block(&self, segment: SegmentId, part: u32, durable: Lsn) -> Lsn {
        self.0.get(&(segment, part)).map_or(Lsn::ZERO, |facts| {
            let beyond = facts.beyond.iter().take_while(|lsn| **lsn <= durable);
            beyond.copied().fold(facts.durable, Lsn::max)
        })
    }

    /// The list, when everything up to `durable` is durable.
    pub(crate) fn list(&mut self, durable: Lsn) -> Vec<Listed> {
        let list = self.0.iter_mut().map(|((segment, part), facts)| {
            facts.settle(durable);
            let last_lsn = if facts.is_sealed { Listed::SEALED } else { facts.durable };
            Listed { segment: *segment, part: *part, last_lsn }
        });
        list.collect()
    }
}

impl Facts {
    fn settle(&mut self, durable: Lsn) {
        while let Some(lsn) = self.beyond.pop_front_if(|lsn| *lsn <= durable) {
            self.durable = self.durable.max(lsn);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(listing: &mut Listing, durable: u64) -> Vec<(u32, u32, u64)> {
        let list = listing.list(Lsn(durable));
        list.iter().map(|entry| (entry.segment.0, entry.part, entry.last_lsn.0)).collect()
    }

    #[test]
    fn only_blocks_of_the_durable_prefix_are_noted() {
        let mut listing = Listing::default();
        let id = (SegmentId(1), 0);
        listing.note_made(id.0, id.1);
        assert_eq!(listed(&mut listing, 0), [(1, 0, 0)]);
        listing.note_synced(id, [Lsn(3), Lsn(5)].into_iter(), Lsn(3));
        let last = |listing: &Listing, durable| listing.last_block(id.0, id.1, Lsn(durable));
        assert_eq!([0, 4, 5, 9].map(|durable| last(&listing, durable)), [3, 3, 5, 5].map(Lsn));
        assert_eq!(listed(&mut listing, 4), [(1, 0, 3)]);
        assert_eq!(listed(&mut listing, 5), [(1, 0, 5)]);
        listing.note_sealed(id.0, id.1);
        assert_eq!(listed(&mut listing, 5), [(1, 0, u64::MAX)]);
    }

    #[test]
    fn a_compaction_makes_parts_one_and_drops_what_is_gone() {
        let mut listing = Listing::default();
        for (segment, part) in [(1, 0), (1, 2), (2, 0), (3, 1)] {
            listing.note_made(SegmentId(segment), part);
        }
        assert!(listing.note_whole(SegmentId(1)) && !listing.note_whole(SegmentId(1)));
        assert!(listing.note_whole(SegmentId(3)));
        listing.note_gone(SegmentId(2));
        assert_eq!(listed(&mut listing, 9), [(1, 0, u64::MAX), (3, 0, u64::MAX)]);
    }
}
