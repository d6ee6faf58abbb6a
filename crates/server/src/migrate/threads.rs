//! Threads that step couriers.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;
use std::time::Duration;

use super::courier::{Courier, CourierStep};
use super::tcp::TcpDialer;

/// How long a courier waits for the engine before it looks again.
const IDLE_WAIT: Duration = Duration::from_secs(1);

/// Steps couriers.
pub trait MigrateRunner: Send {
    /// Steps a courier until it is finished, and wakes the engine when there is something to know.
    ///
    /// # Errors
    /// When the system has no thread for it.
    fn run(&mut self, courier: Courier) -> io::Result<()>;
}

/// How many threads there may be: one is waited for, the others were given up, and end when the system lets them.
const THREADS_MAX: usize = 16;

/// Threads that are there. Each holds one of these.
pub(super) struct Held(Arc<AtomicUsize>);

impl Held {
    /// One more of `count`.
    ///
    /// # Errors
    /// When there are too many.
    pub(super) fn of(count: &Arc<AtomicUsize>) -> io::Result<Self> {
        let held = Self(Arc::clone(count));
        if count.fetch_add(1, Ordering::Relaxed) < THREADS_MAX {
            return Ok(held);
        }
        Err(io::Error::other("too many migrations that were given up have not ended yet"))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A thread a courier: there is one that the engine waits for, and there may be some that it has given up.
pub(crate) struct MigrateThreads {
    waker: redo::Waker,
    count: Arc<AtomicUsize>,
}

impl MigrateThreads {
    /// Threads that wake the executor by `waker`.
    pub(crate) fn new(waker: redo::Waker) -> Self {
        Self { waker, count: Arc::default() }
    }
}

impl MigrateRunner for MigrateThreads {
    fn run(&mut self, mut courier: Courier) -> io::Result<()> {
        let waker = Arc::clone(&self.waker);
        let held = Held::of(&self.count)?;
        let mut dialer = TcpDialer::new(courier.given_up(), Arc::clone(&self.count));
        let step = move || {
            let _held = held;
            loop {
                let step = courier.step(&mut dialer);
                match step {
                    CourierStep::Worked if courier.has_news() => waker(),
                    CourierStep::Worked => {}
                    CourierStep::Idle => courier.wait(IDLE_WAIT),
                    CourierStep::Finished => break,
                }
            }
        };
        Builder::new().name("courier".to_owned()).spawn(step).map(drop)
    }
}
