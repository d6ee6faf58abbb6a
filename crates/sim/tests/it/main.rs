//! What survives: the simulator run for a bounded time, and crashes at every I/O of short traces.
//!
//! `INDELIBLE_SEED=7` runs seed 7 alone; `INDELIBLE_SEEDS=50` runs fifty times as many seeds.

mod everywhere;
mod simulation;
