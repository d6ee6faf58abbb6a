//! Large sets.

use base::RecordAddr;

use crate::hasher::KeyHasher;
use crate::object::Large;

/// A large set.
pub(crate) struct LargeSet;

impl Large for LargeSet {
    fn empty() -> Self {
        Self
    }
    fn root_value(&self, _out: &mut Vec<u8>) {}
    fn replay_root(&mut self, _value: &[u8]) {}
    fn replay_element(
        &mut self,
        _: KeyHasher,
        _: &[u8],
        _: &[u8],
        _: RecordAddr,
    ) -> Option<RecordAddr> {
        None
    }
    fn replay_delete(&mut self, _: KeyHasher, _: &[u8]) -> Option<RecordAddr> {
        None
    }
    fn replay_finish(&mut self, _: KeyHasher) {}
    fn duplicate(&self, _: base::ObjectId, _: &mut crate::recorder::Recorder) -> Self {
        Self
    }
    fn encoding(&self) -> &'static str {
        ""
    }
    fn len(&self) -> usize {
        0
    }
    fn into_addrs(self) -> Box<dyn Iterator<Item = Option<RecordAddr>> + Send> {
        Box::new(std::iter::empty())
    }
    fn allocated_bytes(&self, _samples: usize) -> usize {
        0
    }
}
