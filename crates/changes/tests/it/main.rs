//! What a log says, and what a consumer makes of it: equal to the keyspace that has logged it, after each block.

mod consumer;
mod following;
mod hostile;
