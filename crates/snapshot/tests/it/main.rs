//! What holds for every algorithm.
//!
//! ```text
//!   model         one thread, a script: steps of client and snapshotter in any order, against a Vec
//!   threads       two real threads; each snapshot is compared with the ticks replayed up to it
//!   transactions  several threads; each snapshot is the state after as many commits as it says
//!   dumps         files: the format, corruption of each byte, merging, what can fail
//! ```

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

// Miri knows only some of the calls for files, and there is no `unsafe` in what writes them.
#[cfg(not(miri))]
mod dumps;
mod model;
mod threads;
mod transactions;

/// A value whose words all differ and all tell which value it is: a torn row equals no value.
pub fn value(seed: u64, words: usize) -> Vec<u64> {
    (0..words as u64)
        .map(|word| seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(word))
        .collect()
}

/// Calls a generic function once for each physical algorithm, as a test of its own.
#[macro_export]
macro_rules! for_each_algorithm {
    ($($check:ident),* $(,)?) => {
        $crate::for_each_algorithm!(@ naive Naive [$($check)*]);
        $crate::for_each_algorithm!(@ copy_on_update CopyOnUpdate [$($check)*]);
        $crate::for_each_algorithm!(@ zigzag Zigzag [$($check)*]);
        $crate::for_each_algorithm!(@ ping_pong PingPong [$($check)*]);
        $crate::for_each_algorithm!(@ hourglass Hourglass [$($check)*]);
        $crate::for_each_algorithm!(@ piggyback Piggyback [$($check)*]);
        $crate::for_each_algorithm!(@ windowed Windowed [$($check)*]);
        // Miri knows no processes.
        #[cfg(not(miri))]
        $crate::for_each_algorithm!(@ fork Fork [$($check)*]);
    };
    (@ $module:ident $algorithm:ident [$($check:ident)*]) => {
        mod $module {
            $(#[test] fn $check() { super::$check::<snapshot::$algorithm>(); })*
        }
    };
}
