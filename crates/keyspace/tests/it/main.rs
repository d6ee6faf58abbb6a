//! The keyspace as its users see it, and what it leaves in the log.

mod apply;
mod flush;
mod follow;
mod full_rewrite;
mod journal;
mod list;
mod members;
mod model;
mod rewrite_lost;
mod speed;
mod zset;
