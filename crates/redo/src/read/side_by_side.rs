//! The same work for several files at once: most of it is waiting for the disk.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, scope};

/// Does `work` for each item, on up to `threads` threads. Returns what came of it, in the items' order.
#[must_use]
pub fn side_by_side<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: impl Fn(&T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut done = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return done };
            done.push((at, work(item)));
        }
    };
    let mut done = scope(|scope| {
        // Where no more threads can be started, those that there are do all of it.
        let others: Vec<_> = (1..threads.min(items.len()))
            .map_while(|_| Builder::new().spawn_scoped(scope, take).ok())
            .collect();
        let mut done = take();
        for other in others {
            done.extend(other.join().expect("it panics only if `work` does"));
        }
        done
    });
    done.sort_unstable_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        for count in [0, 1, 2, 500] {
            let items: Vec<usize> = (0..count).collect();
            for threads in [1, 3] {
                let doubled = side_by_side(&items, threads, |item| item * 2);
                assert!(doubled.into_iter().eq((0..count).map(|item| item * 2)));
            }
        }
    }
}
