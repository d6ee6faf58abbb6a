//! Tests of dumps.

mod journal;
mod records;
