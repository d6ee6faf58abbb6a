//! The keyspace as its users see it, and what it leaves in the log.

mod apply;
mod bare;
mod cold;
mod ends;
mod expiring_fields;
mod flush;
mod follow;
mod full_rewrite;
mod hot;
mod journal;
mod list;
mod lost;
mod members;
mod model;
mod rewrite_lost;
mod speed;
mod stream;
mod walk;
mod zset;

use base::DbIndex;

/// The databases of the tests.
const DB0: DbIndex = DbIndex::FIRST;
const DB1: DbIndex = DB0.next();
const DB2: DbIndex = DB1.next();
const DB3: DbIndex = DB2.next();
