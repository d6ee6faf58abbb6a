//! How a value lies in memory, in Redis' words: DEBUG LISTPACK, QUICKLIST, SDSLEN and STRUCTSIZE.

use base::DbIndex;
use command::error::{CommandError, Done};
use keyspace::hash::Hash;
use keyspace::list::List;
use keyspace::zset::ZSet;
use keyspace::{Keyspace, StringLayout, Type};

use super::super::{ClientKey, Engine};
use super::{error, quote};

/// How many elements are shown, and how many bytes of each.
const SHOWN_MAX: usize = 128;
const SHOWN_BYTES_MAX: usize = 40;

/// DEBUG LISTPACK and QUICKLIST: writes the elements of a value of this encoding to the server's log.
pub(super) fn show(engine: &mut Engine, key: ClientKey, name: &[u8], wanted: &'static str) -> Done {
    let db = engine.sessions[key].session.db;
    let encoding = engine.shard.keyspace.encoding(db, name).ok_or(CommandError::NoSuchKey)?;
    if encoding != wanted {
        return Err(error(format!("ERR Not a {wanted} encoded object.")));
    }
    let (elements, count) = elements(&mut engine.shard.keyspace, db, name);
    let logger = &engine.deps.logger;
    logger.warning(&format!("DEBUG {}: {count} elements", wanted.to_uppercase()));
    for (index, Shown { begins, bytes }) in elements.iter().enumerate() {
        let mut line = format!("{index:>5} {bytes:>5} ").into_bytes();
        quote(begins, &mut line);
        let ellipsis = if *bytes > begins.len() { "…" } else { "" };
        logger.warning(&format!("{}{ellipsis}", String::from_utf8_lossy(&line)));
    }
    if count > elements.len() {
        logger.warning(&format!("  and {} more", count - elements.len()));
    }
    let title = if wanted == "listpack" { "Listpack" } else { "Quicklist" };
    engine.reply(key).simple(&format!("{title} structure printed on stdout"));
    Ok(())
}

/// The beginning of an element, and how long all of it is.
struct Shown {
    begins: Vec<u8>,
    bytes: usize,
}

/// The first elements of a collection, fields and values, members and scores alike, and how many it has.
fn elements(keyspace: &mut Keyspace, db: DbIndex, name: &[u8]) -> (Vec<Shown>, usize) {
    let (mut shown, mut count) = (Vec::new(), 0);
    let mut take = |element: &[u8]| {
        count += 1;
        if count <= SHOWN_MAX {
            let begins = element[..element.len().min(SHOWN_BYTES_MAX)].to_vec();
            shown.push(Shown { begins, bytes: element.len() });
        }
    };
    keyspace.track_access(false);
    match keyspace.type_of(db, name) {
        Some(Type::List) => {
            if let Ok(Some(list)) = keyspace.read::<List>(db, name) {
                list.iter_from(0).for_each(take);
            }
        }
        Some(Type::Hash) => {
            if let Ok(Some(hash)) = keyspace.read::<Hash>(db, name) {
                hash.for_each(|field, value| [field, value].into_iter().for_each(&mut take));
            }
        }
        Some(Type::ZSet) => {
            if let Ok(Some(zset)) = keyspace.read::<ZSet>(db, name) {
                for (member, score) in zset.iter() {
                    take(member);
                    take(score.to_string().as_bytes());
                }
            }
        }
        _ => {}
    }
    (shown, count)
}

/// DEBUG SDSLEN: a key and its string are one block of memory, whose head is counted with the key.
pub(super) fn string_lengths(engine: &mut Engine, key: ClientKey, name: &[u8]) -> Done {
    let db = engine.sessions[key].session.db;
    let encoding = engine.shard.keyspace.encoding(db, name).ok_or(CommandError::NoSuchKey)?;
    if !matches!(encoding, "embstr" | "raw") {
        return Err(CommandError::other("ERR Not an sds encoded string."));
    }
    let layout = engine.shard.keyspace.string_layout(db, name).ok_or(CommandError::NoSuchKey)?;
    let StringLayout { head_bytes, value_bytes, value_room_bytes } = layout;
    let line = format!(
        "key_sds_len:{}, key_sds_avail:0, key_zmalloc: {}, val_sds_len:{value_bytes}, val_sds_avail:{}, \
         val_zmalloc: {value_room_bytes}",
        name.len(),
        head_bytes + name.len(),
        value_room_bytes - value_bytes,
    );
    engine.reply(key).simple(&line);
    Ok(())
}

/// DEBUG STRUCTSIZE: what a key takes besides its bytes. Strings have no heads of their own.
pub(super) fn struct_sizes(engine: &mut Engine, key: ClientKey) {
    let line = format!(
        "bits:{} robj:{} dictentry:{} sdshdr5:0 sdshdr8:0 sdshdr16:0 sdshdr32:0 sdshdr64:0 ",
        usize::BITS,
        keyspace::ENTRY_HEAD_BYTES,
        keyspace::TABLE_SHARE_BYTES,
    );
    engine.reply(key).bulk_str(&line);
}
