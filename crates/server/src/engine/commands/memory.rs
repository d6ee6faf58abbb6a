//! MEMORY: where the bytes are.

use base::DbIndex;
use command::argument;
use command::error::{CommandError, Done};

use super::super::{ClientKey, Engine};

/// How many elements MEMORY USAGE looks at by default.
const SAMPLES_DEFAULT: usize = 5;

/// MEMORY USAGE.
pub(super) fn usage(engine: &mut Engine, key: ClientKey, args: &[&[u8]]) -> Done {
    let mut samples = SAMPLES_DEFAULT;
    let mut options = &args[3..];
    while let [option, rest @ ..] = options {
        options = match rest {
            [count, rest @ ..] if argument::is(option, "samples") => {
                let count = argument::int(count)?;
                samples = usize::try_from(count).map_err(|_| CommandError::Syntax)?;
                rest
            }
            _ => return Err(CommandError::Syntax),
        };
    }
    let db = engine.sessions[key].session.db;
    let bytes = engine.shard.keyspace.memory_usage(db, args[2], samples);
    let reply = engine.reply(key);
    match bytes {
        Some(bytes) => reply.count(bytes),
        None => reply.null(),
    }
    Ok(())
}

/// MEMORY STATS.
pub(super) fn stats(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let usage = engine.deps.host.memory();
    let clients: usize =
        engine.sessions.clients.iter().map(|(_, client)| client.memory_bytes()).sum();
    let databases: Vec<(DbIndex, usize, usize)> = engine
        .shard
        .keyspace
        .databases()
        .filter(|db| engine.shard.keyspace.size(*db).0 > 0)
        .map(|db| {
            let (keys, expiring) = engine.shard.keyspace.table_bytes(db);
            (db, keys, expiring)
        })
        .collect();
    let keys: usize =
        engine.shard.keyspace.databases().map(|db| engine.shard.keyspace.size(db).0).sum();
    let overhead =
        clients + databases.iter().map(|(_, keys, expiring)| keys + expiring).sum::<usize>();
    let used = usage.allocated_bytes;
    let dataset = used.saturating_sub(overhead as u64 + usage.startup_bytes);
    let peak = engine.observed.peak_memory_bytes.max(used);

    let average = used.saturating_sub(usage.startup_bytes).checked_div(keys as u64).unwrap_or(0);
    let before = [
        ("peak.allocated", peak),
        ("total.allocated", used),
        ("startup.allocated", usage.startup_bytes),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", clients as u64),
        ("cluster.links", 0),
        ("aof.buffer", 0),
        ("lua.caches", 0),
        ("functions.caches", engine.scripting.functions.figures().source_bytes),
    ];
    let counts = [
        ("overhead.total", overhead as u64),
        ("keys.count", keys as u64),
        ("keys.bytes-per-key", average),
        ("dataset.bytes", dataset),
    ];
    let shares = [
        ("dataset.percentage", percentage(dataset, used)),
        ("peak.percentage", percentage(used, peak)),
    ];
    let allocator = [
        ("allocator.allocated", usage.allocated_bytes),
        ("allocator.active", usage.active_bytes),
        ("allocator.resident", usage.resident_bytes),
    ];
    // Each is a ratio of what is held to what is needed, and their difference.
    let overheads = [
        ("allocator-fragmentation", ".ratio", usage.active_bytes, usage.allocated_bytes),
        ("allocator-rss", ".ratio", usage.resident_bytes, usage.active_bytes),
        ("rss-overhead", ".ratio", usage.process_bytes, usage.resident_bytes),
        ("fragmentation", "", usage.process_bytes, usage.allocated_bytes),
    ];
    let reply = engine.reply(key);
    reply.map(
        before.len()
            + databases.len()
            + counts.len()
            + shares.len()
            + allocator.len()
            + 2 * overheads.len(),
    );
    for (name, value) in before {
        reply.bulk_str(name);
        reply.int(value.cast_signed());
    }
    for (db, keys, expiring) in databases {
        reply.bulk_str(&format!("db.{db}"));
        reply.map(3);
        let fields = [("main", keys), ("expires", expiring), ("slot-to-keys", 0)]
            .map(|(name, value)| (format!("overhead.hashtable.{name}"), value));
        for (name, value) in fields {
            reply.bulk_str(&name);
            reply.count(value);
        }
    }
    for (name, value) in counts {
        reply.bulk_str(name);
        reply.int(value.cast_signed());
    }
    for (name, value) in shares {
        reply.bulk_str(name);
        reply.double(value);
    }
    for (name, value) in allocator {
        reply.bulk_str(name);
        reply.int(value.cast_signed());
    }
    for (name, suffix, held, needed) in overheads {
        reply.bulk_str(&format!("{name}{suffix}"));
        reply.double(ratio(held, needed));
        reply.bulk_str(&format!("{name}.bytes"));
        reply.int(held.cast_signed() - needed.cast_signed());
    }
    Ok(())
}

/// MEMORY PURGE.
pub(super) fn purge(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    engine.deps.host.purge();
    engine.reply(key).ok();
    Ok(())
}

/// MEMORY MALLOC-STATS.
pub(super) fn malloc_stats(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let usage = engine.deps.host.memory();
    let report = format!(
        "{}: allocated {} active {} resident {}\n",
        usage.allocator, usage.allocated_bytes, usage.active_bytes, usage.resident_bytes
    );
    engine.reply(key).verbatim("txt", &report);
    Ok(())
}

/// MEMORY DOCTOR.
pub(super) fn doctor(engine: &mut Engine, key: ClientKey, _args: &[&[u8]]) -> Done {
    let usage = engine.deps.host.memory();
    let report = if usage.allocated_bytes < 5 << 20 {
        "This instance uses very little memory: there is nothing to say about it.\n"
    } else if usage.resident_bytes > usage.allocated_bytes + usage.allocated_bytes / 2 {
        "Much more memory is resident than allocated: MEMORY PURGE gives unused pages back.\n"
    } else {
        "No memory problems were found.\n"
    };
    engine.reply(key).verbatim("txt", report);
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "for people to read")]
fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn percentage(part: u64, whole: u64) -> f64 {
    ratio(part, whole) * 100.0
}
