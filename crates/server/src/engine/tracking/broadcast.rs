//! Clients that are told of all changes of keys with a prefix, whether they have read them or not.
//!
//! The changes that the input of one client makes are told together, an array of keys for each prefix: before another client is
//! answered, which may have the new value in its reply. But changes of a later block, which others see later, not with those of an earlier one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use base::Lsn;
use resp::Writer;

use super::prefixes::PrefixMap;
use super::{News, Telling};

/// What there is about one prefix.
#[derive(Debug, Default)]
struct Listened {
    /// The ids of the clients that want to know.
    clients: BTreeSet<u64>,
    /// The keys that have changed, each with the client that has done so; none if several have.
    changed: BTreeMap<Arc<[u8]>, Option<u64>>,
}

/// See the file's top.
#[derive(Debug, Default)]
pub(super) struct Broadcast {
    prefixes: PrefixMap<Listened>,
    /// The block of what has changed and was not told, if something has.
    lsn: Option<Lsn>,
    /// The prefixes of which something has.
    changed: BTreeSet<Box<[u8]>>,
}

impl Broadcast {
    pub(super) fn prefix_count(&self) -> usize {
        self.prefixes.len()
    }

    /// Whether something has changed that was not told.
    pub(super) const fn has_changes(&self) -> bool {
        self.lsn.is_some()
    }

    pub(super) fn subscribe(&mut self, prefix: &[u8], id: u64) {
        self.prefixes.entry(prefix).clients.insert(id);
    }

    pub(super) fn unsubscribe(&mut self, prefix: &[u8], id: u64) {
        if let Some(listened) = self.prefixes.get_mut(prefix) {
            listened.clients.remove(&id);
            if listened.clients.is_empty() {
                self.prefixes.remove(prefix);
            }
        }
    }

    /// A key has changed in this block. What has changed in one before goes to `due`.
    pub(super) fn note(
        &mut self,
        key: &[u8],
        lsn: Lsn,
        origin: Option<u64>,
        is_own_kept: &impl Fn(u64) -> bool,
        due: &mut VecDeque<Telling>,
    ) {
        if self.prefixes.len() == 0 {
            return;
        }
        self.end_before(lsn, is_own_kept, due);
        let mut shared: Option<Arc<[u8]>> = None;
        let Self { prefixes, lsn: noted, changed } = self;
        prefixes.for_each_of(key, |prefix, listened| {
            if listened.changed.is_empty() {
                changed.insert(prefix.into());
            }
            let key = Arc::clone(shared.get_or_insert_with(|| key.into()));
            let by = listened.changed.entry(key).or_insert(origin);
            // Of what another client has done, too, either is told.
            *by = by.filter(|by| Some(*by) == origin);
            *noted = Some(lsn);
        });
    }

    /// What has changed in another block than this goes to `due`.
    pub(super) fn end_before(
        &mut self,
        lsn: Lsn,
        is_own_kept: &impl Fn(u64) -> bool,
        due: &mut VecDeque<Telling>,
    ) {
        if self.lsn.is_some_and(|before| before != lsn) {
            self.end(is_own_kept, due);
        }
    }

    /// All that has changed goes to `due`. `is_own_kept`: a client is not told of its own changes.
    pub(super) fn end(&mut self, is_own_kept: &impl Fn(u64) -> bool, due: &mut VecDeque<Telling>) {
        let Some(lsn) = self.lsn.take() else { return };
        for prefix in std::mem::take(&mut self.changed) {
            // Its last client may be gone, and another one have come.
            let Some(listened) = self.prefixes.get_mut(&prefix) else { continue };
            let changed = std::mem::take(&mut listened.changed);
            if changed.is_empty() {
                continue;
            }
            let all = array(changed.keys());
            for &client in &listened.clients {
                let keys = if is_own_kept(client) {
                    let others = changed.iter().filter(|(_, origin)| **origin != Some(client));
                    let others: Vec<&Arc<[u8]>> = others.map(|(key, _)| key).collect();
                    if others.is_empty() {
                        continue;
                    }
                    array(others.into_iter())
                } else {
                    Arc::clone(&all)
                };
                due.push_back(Telling { client, news: News::Keys(keys), lsn, origin: None });
            }
        }
    }
}

/// An array of keys in the protocol; the same in both versions.
fn array<'a>(keys: impl ExactSizeIterator<Item = &'a Arc<[u8]>>) -> Arc<[u8]> {
    let mut writer = Writer::default();
    writer.array(keys.len());
    keys.for_each(|key| writer.bulk(key));
    writer.take().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(due: &mut VecDeque<Telling>) -> Vec<(u64, u64, String)> {
        let text = |news: &News| match news {
            News::Keys(keys) => String::from_utf8_lossy(keys).replace("\r\n", " "),
            other => panic!("{other:?}"),
        };
        due.drain(..).map(|it| (it.client, it.lsn.0, text(&it.news))).collect()
    }

    #[test]
    fn changes_are_told_together_by_prefix() {
        let (mut broadcast, mut due) = (Broadcast::default(), VecDeque::new());
        broadcast.subscribe(b"a", 1);
        broadcast.subscribe(b"a", 2);
        broadcast.subscribe(b"", 3);
        let is_own_kept = |id| id == 2;
        for (key, origin) in [(&b"ab"[..], 1), (b"x", 2), (b"aa", 2), (b"ab", 2)] {
            broadcast.note(key, Lsn(5), Some(origin), &is_own_kept, &mut due);
        }
        broadcast.end(&is_own_kept, &mut due);
        let all = "*3 $2 aa $2 ab $1 x ".to_owned();
        let told = told(&mut due);
        let both = "*2 $2 aa $2 ab ".to_owned();
        let others = "*1 $2 ab ".to_owned();
        assert_eq!(told, [(3, 5, all), (1, 5, both), (2, 5, others)], "1 has changed ab, too");
        broadcast.end(&is_own_kept, &mut due);
        assert!(due.is_empty() && !broadcast.has_changes());
    }

    #[test]
    fn what_others_see_later_is_told_later() {
        let (mut broadcast, mut due) = (Broadcast::default(), VecDeque::new());
        broadcast.subscribe(b"", 1);
        broadcast.note(b"a", Lsn(5), None, &|_| false, &mut due);
        broadcast.note(b"b", Lsn(5), None, &|_| false, &mut due);
        broadcast.note(b"a", Lsn(6), None, &|_| false, &mut due);
        broadcast.end(&|_| false, &mut due);
        let told = told(&mut due);
        assert_eq!(told, [(1, 5, "*2 $1 a $1 b ".to_owned()), (1, 6, "*1 $1 a ".to_owned())]);
    }

    #[test]
    fn a_prefix_goes_with_its_last_client() {
        let mut broadcast = Broadcast::default();
        broadcast.subscribe(b"a", 1);
        broadcast.subscribe(b"a", 2);
        broadcast.unsubscribe(b"a", 1);
        assert_eq!(broadcast.prefix_count(), 1);
        broadcast.unsubscribe(b"a", 2);
        assert_eq!(broadcast.prefix_count(), 0);
        let mut due = VecDeque::new();
        broadcast.note(b"ab", Lsn(1), None, &|_| false, &mut due);
        assert!(!broadcast.has_changes());
    }
}
