//! Publish and subscribe.
//!
//! A message may tell of what its sender has written before: it waits for that to be durable, as
//! the sender's own replies do. A script may tell of what it has read, too.

use command::error::Done;

use super::super::pubsub::{Kind, Subscriptions};
use super::super::sessions::Sessions;
use super::super::{ClientKey, Engine};

/// PUBLISH.
pub(super) fn publish(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let after = engine.sessions[key].session.last_write.max(engine.scripting.dependence());
    let receivers = engine.publish(false, args[1], args[2], after);
    engine.reply(key).count(receivers);
    Ok(())
}

/// SPUBLISH.
pub(super) fn spublish(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let after = engine.sessions[key].session.last_write.max(engine.scripting.dependence());
    let receivers = engine.publish(true, args[1], args[2], after);
    engine.reply(key).count(receivers);
    Ok(())
}

/// SUBSCRIBE.
pub(super) fn subscribe(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    engine.sessions.subscribe(key, Kind::Channel, &args[1..])
}

/// PSUBSCRIBE.
pub(super) fn psubscribe(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    engine.sessions.subscribe(key, Kind::Pattern, &args[1..])
}

/// SSUBSCRIBE.
pub(super) fn ssubscribe(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    engine.sessions.subscribe(key, Kind::Shard, &args[1..])
}

/// UNSUBSCRIBE.
pub(super) fn unsubscribe(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    engine.sessions.unsubscribe(key, Kind::Channel, &args[1..]);
    Ok(())
}

/// PUNSUBSCRIBE.
pub(super) fn punsubscribe(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    engine.sessions.unsubscribe(key, Kind::Pattern, &args[1..]);
    Ok(())
}

/// SUNSUBSCRIBE.
pub(super) fn sunsubscribe(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    engine.sessions.unsubscribe(key, Kind::Shard, &args[1..]);
    Ok(())
}

fn at_most_a_pattern(args: &[&[u8]]) -> Done {
    if args.len() <= 3 {
        return Ok(());
    }
    let subcommand = String::from_utf8_lossy(args[1]);
    Err(super::error(format!(
        "ERR unknown subcommand or wrong number of arguments for '{subcommand}'. Try PUBSUB HELP."
    )))
}

/// PUBSUB CHANNELS.
pub(super) fn channels(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    at_most_a_pattern(args)?;
    engine.sessions.write_names(key, Kind::Channel, args.get(2).copied());
    Ok(())
}

/// PUBSUB SHARDCHANNELS.
pub(super) fn shardchannels(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    at_most_a_pattern(args)?;
    engine.sessions.write_names(key, Kind::Shard, args.get(2).copied());
    Ok(())
}

/// PUBSUB NUMPAT.
pub(super) fn numpat(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let count = engine.sessions.registry.count(Kind::Pattern);
    engine.reply(key).count(count);
    Ok(())
}

/// PUBSUB NUMSUB.
pub(super) fn numsub(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    engine.sessions.write_listener_counts(key, Kind::Channel, &args[2..]);
    Ok(())
}

/// PUBSUB SHARDNUMSUB.
pub(super) fn shardnumsub(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    engine.sessions.write_listener_counts(key, Kind::Shard, &args[2..]);
    Ok(())
}

impl Sessions {
    fn subscribe(&mut self, key: ClientKey, kind: Kind, names: &[&[u8]]) -> Done {
        let Self { clients, registry, .. } = self;
        for name in names {
            let client = &mut clients[key];
            let maker = client.session.identity;
            let subscriptions = client.session.subscriptions.get_or_insert_default();
            if subscriptions.insert(kind, name, maker) {
                registry.subscribe(kind, name, key);
            }
            let count = subscriptions.shown_count(kind);
            let reply = client.connection.output.writer();
            reply.push(3);
            reply.bulk_str(kind.subscribed());
            reply.bulk(name);
            reply.count(count);
        }
        Ok(())
    }

    /// Ends the named subscriptions, or all of the kind.
    fn unsubscribe(&mut self, key: ClientKey, kind: Kind, names: &[&[u8]]) {
        let Self { clients, registry, .. } = self;
        let client = &mut clients[key];
        let names: Vec<Vec<u8>> = if names.is_empty() {
            client
                .session
                .subscriptions
                .as_ref()
                .map(|all| all.of(kind).cloned().collect())
                .unwrap_or_default()
        } else {
            names.iter().map(|name| name.to_vec()).collect()
        };
        let mut none = Subscriptions::default();
        if names.is_empty() {
            let count = client.session.subscriptions.as_deref().unwrap_or(&none).shown_count(kind);
            let reply = client.connection.output.writer();
            reply.push(3);
            reply.bulk_str(kind.unsubscribed());
            reply.null();
            reply.count(count);
        }
        for name in names {
            let subscriptions = client.session.subscriptions.as_deref_mut().unwrap_or(&mut none);
            if subscriptions.remove(kind, &name) {
                registry.unsubscribe(kind, &name, key);
            }
            let count = subscriptions.shown_count(kind);
            let reply = client.connection.output.writer();
            reply.push(3);
            reply.bulk_str(kind.unsubscribed());
            reply.bulk(&name);
            reply.count(count);
        }
        if client
            .session
            .subscriptions
            .as_ref()
            .is_some_and(|subscriptions| subscriptions.is_empty())
        {
            client.session.subscriptions = None;
        }
    }

    /// Ends all subscriptions without a word.
    pub(crate) fn unsubscribe_all(&mut self, key: ClientKey) {
        let Some(subscriptions) = self.clients[key].session.subscriptions.take() else { return };
        for kind in [Kind::Channel, Kind::Pattern, Kind::Shard] {
            for name in subscriptions.of(kind) {
                self.registry.unsubscribe(kind, name, key);
            }
        }
    }

    fn write_names(&mut self, key: ClientKey, kind: Kind, pattern: Option<&[u8]>) {
        let Self { clients, registry, .. } = self;
        let names: Vec<&[u8]> = registry.names(kind, pattern).collect();
        let reply = clients[key].connection.output.writer();
        reply.array(names.len());
        for name in names {
            reply.bulk(name);
        }
    }

    fn write_listener_counts(&mut self, key: ClientKey, kind: Kind, names: &[&[u8]]) {
        let Self { clients, registry, .. } = self;
        let reply = clients[key].connection.output.writer();
        reply.array(names.len() * 2);
        for name in names {
            reply.bulk(name);
            reply.count(registry.listener_count(kind, name));
        }
    }
}
