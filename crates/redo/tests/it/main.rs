//! The log as its users see it: what was acknowledged is there after whatever happens.

mod crash;
mod harness;
mod lifecycle;
mod simulation;
