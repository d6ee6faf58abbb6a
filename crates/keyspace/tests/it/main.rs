//! The keyspace as its users see it, and what it leaves in the log.

mod apply;
mod flush;
mod follow;
mod journal;
mod list;
mod members;
mod model;
mod relog;
mod rewrite;
mod speed;
mod zset;
