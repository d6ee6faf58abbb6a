//! XCLAIM and XAUTOCLAIM: entries that a consumer takes over from others.

use keyspace::Notify;
use keyspace::stream::{ConsumerId, Delivery, PendingView, Stream, StreamGuard, StreamId};

use super::{group, id, write_entry, write_id};
use crate::argument::{self, is};
use crate::context::Context;
use crate::error::{CommandError, Done};

/// Which consumer of which group takes over entries: all that both commands need.
struct Claim<'a> {
    group: &'a [u8],
    consumer: &'a [u8],
    now_ms: i64,
    min_idle_ms: i64,
    /// Delivery counts stay what they are.
    just_id: bool,
}

/// What a consumer is, or has become.
struct Claimant {
    id: ConsumerId,
    is_new: bool,
}

impl Claim<'_> {
    /// The consumer, which is made if it is not there, and is seen now.
    fn claimant(&self, stream: &mut StreamGuard<'_>) -> Claimant {
        let mut group = stream.group(self.group).expect("it was just seen");
        let known = group.consumer(self.consumer);
        let id = known.unwrap_or_else(|| group.create_consumer(self.consumer, self.now_ms));
        group.note_seen(id, self.now_ms, false);
        Claimant { id, is_new: known.is_none() }
    }

    /// Whether it has been idle for long enough; what was given back has.
    fn is_idle(&self, pending: PendingView<'_>) -> bool {
        let idle_ms = self.now_ms.saturating_sub(pending.delivery.at_ms);
        pending.consumer.is_none() || self.min_idle_ms <= 0 || idle_ms >= self.min_idle_ms
    }

    /// Gives an entry to the consumer; `before` is when and how often it was delivered.
    fn take(
        &self,
        stream: &mut StreamGuard<'_>,
        claimant: &Claimant,
        id: StreamId,
        before: Delivery,
        at_ms: i64,
        retry_count: Option<u64>,
    ) {
        let next = if self.just_id { before } else { before.again(at_ms) };
        let delivery = Delivery { at_ms, count: retry_count.unwrap_or(next.count) };
        let mut group = stream.group(self.group).expect("it was just seen");
        group.deliver(claimant.id, id, delivery);
    }
}

/// The options of XCLAIM.
#[derive(Default)]
struct Options {
    delivered_ms: Option<i64>,
    retry_count: Option<u64>,
    force: bool,
    just_id: bool,
    last_id: StreamId,
}

impl Options {
    fn parse(mut words: &[&[u8]], now_ms: i64) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let int = |argument: &[u8], error: &'static str| {
            argument::int(argument).map_err(|_| CommandError::other(error))
        };
        while let [word, rest @ ..] = words {
            words = match rest {
                rest if is(word, "FORCE") => {
                    options.force = true;
                    rest
                }
                rest if is(word, "JUSTID") => {
                    options.just_id = true;
                    rest
                }
                [ms, rest @ ..] if is(word, "IDLE") => {
                    let ms = int(ms, "ERR Invalid IDLE option argument for XCLAIM")?;
                    options.delivered_ms = Some(now_ms.saturating_sub(ms));
                    rest
                }
                [ms, rest @ ..] if is(word, "TIME") => {
                    let ms = int(ms, "ERR Invalid TIME option argument for XCLAIM")?;
                    options.delivered_ms = Some(ms);
                    rest
                }
                [count, rest @ ..] if is(word, "RETRYCOUNT") => {
                    let count = int(count, "ERR Invalid RETRYCOUNT option argument for XCLAIM")?;
                    options.retry_count = u64::try_from(count).ok();
                    rest
                }
                [id, rest @ ..] if is(word, "LASTID") => {
                    options.last_id = id::strict(id)?;
                    rest
                }
                _ => {
                    let word = String::from_utf8_lossy(word);
                    let text = format!("ERR Unrecognized XCLAIM option '{word}'");
                    return Err(CommandError::Other(text.into()));
                }
            };
        }
        Ok(options)
    }

    /// When an entry counts as delivered: a bogus time is now.
    fn delivered_ms(&self, now_ms: i64) -> i64 {
        self.delivered_ms.filter(|ms| (0..=now_ms).contains(ms)).unwrap_or(now_ms)
    }
}

fn check_group(ctx: &mut Context<'_>, key: &[u8], name: &[u8]) -> Done {
    let stream = ctx.keyspace.read_to_change::<Stream>(ctx.db, key)?;
    let group = stream.and_then(|stream| stream.group(name));
    group.map(|_| ()).ok_or_else(|| group::no_group(key, name))
}

pub(crate) fn xclaim(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    let (key, group, consumer) = (args[1], args[2], args[3]);
    check_group(ctx, key, group)?;
    let min_idle_ms = argument::int(args[4])
        .map_err(|_| CommandError::other("ERR Invalid min-idle-time argument for XCLAIM"))?;
    let ids: Vec<StreamId> = args[5..].iter().map_while(|it| id::strict(it).ok()).collect();
    let now_ms = ctx.keyspace.now_ms();
    let options = Options::parse(&args[5 + ids.len()..], now_ms)?;
    let claim = Claim { group, consumer, now_ms, min_idle_ms, just_id: options.just_id };
    let mut was_made_older = false;
    let updated = ctx.keyspace.update::<Stream, _>(ctx.db, key, false, |stream| {
        let mut group = stream.group(claim.group).expect("it was just seen");
        if options.last_id > group.view().last_id() {
            let entries_read = group.view().entries_read();
            group.set(options.last_id, entries_read);
        }
        let claimant = claim.claimant(stream);
        let (mark, mut count) = (ctx.reply.mark(), 0);
        for id in ids {
            let view = stream.view();
            let pending = view.group(claim.group).and_then(|group| group.pending(id));
            let before = pending.map(|pending| pending.delivery);
            let Some(entry) = view.get(id) else {
                // It cannot be taken over any more.
                stream.group(claim.group).expect("as above").release(id);
                continue;
            };
            if pending.map_or(!options.force, |pending| !claim.is_idle(pending)) {
                continue;
            }
            if options.just_id {
                write_id(ctx.reply, id);
            } else {
                write_entry(ctx.reply, &entry);
            }
            // One that was not pending counts as delivered once.
            let before = before.unwrap_or(Delivery { at_ms: now_ms, count: 1 });
            let at_ms = options.delivered_ms(now_ms);
            claim.take(stream, &claimant, id, before, at_ms, options.retry_count);
            count += 1;
        }
        ctx.reply.finish_array(mark, count);
        was_made_older = count > 0 && options.delivered_ms(now_ms) < now_ms;
        if count > 0 {
            stream.group(claim.group).expect("as above").note_seen(claimant.id, now_ms, true);
        }
        claimant.is_new
    })?;
    if was_made_older {
        // One that waits to claim looks when what it knew of is due, which may be later.
        ctx.keyspace.wake(ctx.db, key);
    }
    if updated.is_some_and(|updated| updated.value) {
        ctx.notify(Notify::STREAM, "xgroup-createconsumer", key);
    }
    Ok(())
}

pub(crate) fn xautoclaim(ctx: &mut Context<'_>, args: &[&[u8]]) -> Done {
    /// What XAUTOCLAIM takes over at most, unless it is told.
    const COUNT: u64 = 100;
    /// It looks at so many times as many entries.
    const LOOKS: u64 = 10;
    const COUNT_MAX: i64 = i64::MAX / 16;
    let (key, group, consumer) = (args[1], args[2], args[3]);
    let min_idle_ms = argument::int(args[4])
        .map_err(|_| CommandError::other("ERR Invalid min-idle-time argument for XAUTOCLAIM"))?;
    let mut cursor = Some(id::start(args[5])?);
    let (mut left, mut just_id) = (COUNT, false);
    let mut words = &args[6..];
    while let [word, rest @ ..] = words {
        words = match rest {
            [count, rest @ ..] if is(word, "COUNT") => {
                let count = argument::int(count).ok().filter(|it| (1..=COUNT_MAX).contains(it));
                let count = count.and_then(|count| u64::try_from(count).ok());
                left = count.ok_or(CommandError::other("ERR COUNT must be > 0"))?;
                rest
            }
            rest if is(word, "JUSTID") => {
                just_id = true;
                rest
            }
            _ => return Err(CommandError::Syntax),
        };
    }
    check_group(ctx, key, group)?;
    let now_ms = ctx.keyspace.now_ms();
    let claim = Claim { group, consumer, now_ms, min_idle_ms, just_id };
    let mut looks = left * LOOKS;
    let updated = ctx.keyspace.update::<Stream, _>(ctx.db, key, false, |stream| {
        let claimant = claim.claimant(stream);
        let (mut claimed, mut deleted) = (Vec::new(), Vec::new());
        let next = |stream: &StreamGuard<'_>, from: Option<StreamId>| {
            let group = stream.view().group(claim.group)?;
            let pending = group.pending_from(from?).next()?;
            Some((pending.id, pending.delivery, claim.is_idle(pending)))
        };
        while looks > 0
            && left > 0
            && let Some((id, before, is_idle)) = next(&*stream, cursor)
        {
            (looks, cursor) = (looks - 1, id.next());
            if stream.view().get(id).is_none() {
                stream.group(claim.group).expect("it was just seen").release(id);
                deleted.push(id);
            } else if is_idle {
                claim.take(stream, &claimant, id, before, now_ms, None);
                claimed.push(id);
            } else {
                continue;
            }
            left -= 1;
        }
        if !claimed.is_empty() {
            let mut group = stream.group(claim.group).expect("it was just seen");
            group.note_seen(claimant.id, now_ms, true);
        }
        ctx.reply.array(3);
        write_id(ctx.reply, next(&*stream, cursor).map_or(StreamId::MIN, |(id, ..)| id));
        ctx.reply.array(claimed.len());
        for id in claimed {
            match stream.view().get(id) {
                Some(entry) if !just_id => write_entry(ctx.reply, &entry),
                _ => write_id(ctx.reply, id),
            }
        }
        ctx.reply.array(deleted.len());
        deleted.into_iter().for_each(|id| write_id(ctx.reply, id));
        claimant.is_new
    })?;
    if updated.is_some_and(|updated| updated.value) {
        ctx.notify(Notify::STREAM, "xgroup-createconsumer", key);
    }
    Ok(())
}
