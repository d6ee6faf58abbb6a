//! The ends of streams, read together.
//!
//! ```text
//!   roots that were read ─► index: where are their last nodes? ─► all nodes in one wait for the device ─► ends
//! ```
//!
//! An XADD to a stream that is in the log only needs these two records ([ADR 58]).
//!
//! [ADR 58]: ../../../../docs/adr/0058-a-stream-in-the-log-is-added-to-at-its-end.md

use base::{Lsn, RecordAddr};
use indexing::Namer;
use keyspace::{Missing, RestoreError, Restored};
use logindex::{Cached, Entry, Index, Name, Place, Scope};
use redo::Reader;

use super::log_restorer::of_index;

/// Large values of which the ends are wanted, and whose roots were read.
#[derive(Default)]
pub(super) struct LastNodes(Vec<(Missing, Restored)>);

impl LastNodes {
    pub(super) fn push(&mut self, missing: Missing, root: Restored) {
        self.0.push((missing, root));
    }

    /// What was wanted, where there is nothing to read it by.
    pub(super) fn into_missing(self) -> impl Iterator<Item = Missing> {
        self.0.into_iter().map(|(missing, _)| missing)
    }

    /// Reads the last nodes, and tells of each end but those that are returned, whose nodes are in no group by
    /// themselves.
    pub(super) fn read(
        self,
        namer: &Namer,
        index: &Index,
        reader: &mut Reader,
        tell: &mut dyn FnMut(Missing, Option<Restored>),
    ) -> Vec<Missing> {
        let names = self.0.iter().filter_map(|(_, root)| name_of(root, namer));
        let are_unknown = |name: &Name| index.probe_cached(*name) == Cached::Unknown;
        names.filter(are_unknown).for_each(|name| index.fetch_ahead(name));
        let mut found = Vec::with_capacity(self.0.len());
        for (missing, mut root) in self.0 {
            root.gather_as_of(index.cut().unwrap_or(Lsn::ZERO));
            match last_node_of(&root, namer, index) {
                Ok(Some(addr)) => found.push((addr, missing, root)),
                Ok(None) => tell_end(missing, Some(root), tell),
                Err(_) => tell_end(missing, None, tell),
            }
        }
        found.sort_unstable_by_key(|(addr, ..)| *addr);
        let addrs: Vec<_> = found.iter().map(|(addr, ..)| *addr).collect();
        let mut found: Vec<_> =
            found.into_iter().map(|(_, missing, root)| Some((missing, root))).collect();
        let others = reader.records_of_groups(&addrs, &mut |which, node| {
            let (missing, mut root) = found[which].take().expect("each is told of once");
            let gathered = root.gather(&node.record(), addrs[which]);
            tell_end(missing, gathered.ok().map(|()| root), tell);
        });
        let others = others.into_iter().filter_map(|which| found[which].take());
        others.map(|(missing, _)| missing).collect()
    }
}

fn tell_end(
    missing: Missing,
    gathered: Option<Restored>,
    tell: &mut dyn FnMut(Missing, Option<Restored>),
) {
    let end = gathered.and_then(|gathered| gathered.arrange_end().ok());
    let end = end.map(|end| end.named(&missing.key));
    tell(missing, end);
}

/// Where the last node is of the stream that a root is; `None` if it has none, or the root is no stream's.
pub(super) fn last_node_of(
    root: &Restored,
    namer: &Namer,
    index: &Index,
) -> Result<Option<RecordAddr>, RestoreError> {
    let Some(name) = name_of(root, namer) else { return Ok(None) };
    let entry = index.probe(name).map_err(of_index)?;
    let addr = entry.as_ref().and_then(Entry::place).map(Place::addr);
    let gone = || RestoreError::Unlisted("the last node of a stream is not listed".to_owned());
    addr.map(Some).ok_or_else(gone)
}

/// The name that the last node has in the index.
fn name_of(root: &Restored, namer: &Namer) -> Option<Name> {
    Some(Name::new(Scope::object(root.object()), namer.hash(root.last_node()?)))
}
