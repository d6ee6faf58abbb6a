//! Properties of every algorithm.
//!
//! ```text
//!   model         one thread, a script: steps of client and snapshotter in any order, against a Vec
//!   threads       two real threads; each snapshot is compared with the ticks replayed up to it
//!   transactions  several threads; each snapshot is the state after as many commits as it says
//!   dumps         files: the format, corruption of each byte, merging, what can fail
//! ```

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

// Miri supports only some of the file calls, and the code that writes files has no `unsafe`.
#[cfg(not(miri))]
mod dumps;
mod model;
mod threads;
mod transactions;

/// A value whose words all differ and each identify it: a torn row equals no value.
pub fn value(seed: u64, words: usize) -> Vec<u64> {
    (0..words as u64)
        .map(|word| seed.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(word))
        .collect()
}

/// Calls a generic function for each physical algorithm, each as its own test.
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
        // Miri does not support processes.
        #[cfg(not(miri))]
        $crate::for_each_algorithm!(@ fork Fork [$($check)*]);
    };
    (@ $module:ident $algorithm:ident [$($check:ident)*]) => {
        mod $module {
            $(#[test] fn $check() { super::$check::<snapshot::$algorithm>(); })*
        }
    };
}
