//! Which clients listen to which channel.
//!
//! The registry knows clients by place only; a client keeps the names of what it listens to, so
//! that leaving is as cheap as coming. Shard channels are a namespace of their own; without a
//! cluster they are otherwise ordinary channels.

use std::collections::BTreeMap;

use resp::{SharedBytes, Writer};

use super::access::Identity;
use super::slab::ClientKey;

/// The three ways to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// SUBSCRIBE.
    Channel,
    /// PSUBSCRIBE.
    Pattern,
    /// SSUBSCRIBE.
    Shard,
}

impl Kind {
    /// The first word of the reply to a subscription.
    pub(crate) fn subscribed(self) -> &'static str {
        match self {
            Self::Channel => "subscribe",
            Self::Pattern => "psubscribe",
            Self::Shard => "ssubscribe",
        }
    }

    /// The first word of the reply to the end of a subscription.
    pub(crate) fn unsubscribed(self) -> &'static str {
        match self {
            Self::Channel => "unsubscribe",
            Self::Pattern => "punsubscribe",
            Self::Shard => "sunsubscribe",
        }
    }
}

/// What one client listens to, and as which user it subscribed.
///
/// A client may authenticate as another user and keeps its subscriptions, as in Redis. Each stays the
/// business of the user that it was made as: what that user loses ends it.
#[derive(Debug, Default)]
pub(crate) struct Subscriptions {
    names: [BTreeMap<Vec<u8>, Identity>; 3],
    memory_bytes: usize,
}

/// What a name takes in addition to its bytes: with its client and its maker, and its place in the registry.
const NAME_OVERHEAD_BYTES: usize = 88;

impl Subscriptions {
    pub(crate) fn of(&self, kind: Kind) -> impl ExactSizeIterator<Item = &Vec<u8>> {
        self.names[kind as usize].keys()
    }

    /// The names of a kind, each with the user that subscribed to it last.
    pub(crate) fn makers(&self, kind: Kind) -> impl Iterator<Item = (&[u8], Identity)> {
        self.names[kind as usize].iter().map(|(name, maker)| (name.as_slice(), *maker))
    }

    /// Adds a name, or gives it another maker; whether it is new.
    pub(crate) fn insert(&mut self, kind: Kind, name: &[u8], maker: Identity) -> bool {
        let is_new = self.names[kind as usize].insert(name.to_vec(), maker).is_none();
        self.memory_bytes += if is_new { NAME_OVERHEAD_BYTES + name.len() } else { 0 };
        is_new
    }

    /// Removes a name; whether it was there.
    pub(crate) fn remove(&mut self, kind: Kind, name: &[u8]) -> bool {
        let was_there = self.names[kind as usize].remove(name).is_some();
        self.memory_bytes -= if was_there { NAME_OVERHEAD_BYTES + name.len() } else { 0 };
        was_there
    }

    /// The memory that the names take, in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        self.memory_bytes
    }

    /// The number that the replies to subscriptions of this kind show.
    pub(crate) fn shown_count(&self, kind: Kind) -> usize {
        match kind {
            Kind::Shard => self.of(Kind::Shard).len(),
            Kind::Channel | Kind::Pattern => {
                self.of(Kind::Channel).len() + self.of(Kind::Pattern).len()
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.names.iter().all(BTreeMap::is_empty)
    }
}

/// The listeners of every name.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    listeners: [BTreeMap<Vec<u8>, Vec<ClientKey>>; 3],
}

impl Registry {
    pub(crate) fn subscribe(&mut self, kind: Kind, name: &[u8], client: ClientKey) {
        self.listeners[kind as usize].entry(name.to_vec()).or_default().push(client);
    }

    pub(crate) fn unsubscribe(&mut self, kind: Kind, name: &[u8], client: ClientKey) {
        let names = &mut self.listeners[kind as usize];
        if let Some(listeners) = names.get_mut(name) {
            listeners.retain(|listener| *listener != client);
            if listeners.is_empty() {
                names.remove(name);
            }
        }
    }

    /// How many names have listeners.
    pub(crate) fn count(&self, kind: Kind) -> usize {
        self.listeners[kind as usize].len()
    }

    /// How many listen to one name.
    pub(crate) fn listener_count(&self, kind: Kind, name: &[u8]) -> usize {
        self.listeners[kind as usize].get(name).map_or(0, Vec::len)
    }

    /// The names that have listeners and match the pattern.
    pub(crate) fn names<'a>(
        &'a self,
        kind: Kind,
        pattern: Option<&'a [u8]>,
    ) -> impl Iterator<Item = &'a [u8]> {
        self.listeners[kind as usize]
            .keys()
            .map(Vec::as_slice)
            .filter(move |name| pattern.is_none_or(|pattern| base::glob::matches(pattern, name)))
    }

    /// The receivers of a message on a channel: each listener once, then once for each of its patterns.
    pub(crate) fn receivers(
        &self,
        is_shard: bool,
        channel: &[u8],
    ) -> Vec<(ClientKey, Option<&[u8]>)> {
        let kind = if is_shard { Kind::Shard } else { Kind::Channel };
        let mut receivers: Vec<(ClientKey, Option<&[u8]>)> = self.listeners[kind as usize]
            .get(channel)
            .into_iter()
            .flatten()
            .map(|client| (*client, None))
            .collect();
        if !is_shard {
            for (pattern, listeners) in &self.listeners[Kind::Pattern as usize] {
                if base::glob::matches(pattern, channel) {
                    receivers
                        .extend(listeners.iter().map(|client| (*client, Some(pattern.as_slice()))));
                }
            }
        }
        receivers
    }
}

/// Writes a message as a client that listens to its channel, or to a pattern, gets it.
pub(crate) fn write_message(
    writer: &mut Writer,
    is_shard: bool,
    pattern: Option<&[u8]>,
    channel: &[u8],
    message: &SharedBytes,
) {
    match pattern {
        Some(pattern) => {
            writer.push(4);
            writer.bulk_str("pmessage");
            writer.bulk(pattern);
        }
        None => {
            writer.push(3);
            writer.bulk_str(if is_shard { "smessage" } else { "message" });
        }
    }
    writer.bulk(channel);
    writer.shared_bulk(message);
}

#[cfg(test)]
mod tests {
    use resp::Protocol;

    use super::*;

    #[test]
    fn listeners_come_and_go() {
        let mut registry = Registry::default();
        let (one, two) = (ClientKey(1), ClientKey(2));
        registry.subscribe(Kind::Channel, b"news", one);
        registry.subscribe(Kind::Pattern, b"n*", two);
        registry.subscribe(Kind::Shard, b"news", two);
        assert_eq!(registry.receivers(false, b"news"), [(one, None), (two, Some(&b"n*"[..]))]);
        assert_eq!(registry.receivers(true, b"news"), [(two, None)]);
        registry.unsubscribe(Kind::Pattern, b"n*", two);
        assert_eq!(registry.receivers(false, b"news"), [(one, None)]);
        assert_eq!(registry.count(Kind::Pattern), 0);
        assert_eq!(registry.names(Kind::Channel, Some(b"x*")).count(), 0);
    }

    #[test]
    fn messages_are_pushes_in_resp3() {
        let message = |protocol| {
            let mut writer = Writer::new(protocol);
            write_message(&mut writer, false, None, b"c", &SharedBytes::from(&b"hi"[..]));
            String::from_utf8(writer.take()).unwrap()
        };
        assert_eq!(message(Protocol::Resp2), "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n");
        assert_eq!(message(Protocol::Resp3), ">3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$2\r\nhi\r\n");
    }
}
