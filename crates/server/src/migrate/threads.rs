//! Threads that step couriers.

use std::io;
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

/// A thread a courier: there is one that the engine waits for, and there may be some that it has given up.
pub(crate) struct MigrateThreads {
    waker: redo::Waker,
}

impl MigrateThreads {
    /// Threads that wake the executor by `waker`.
    pub(crate) const fn new(waker: redo::Waker) -> Self {
        Self { waker }
    }
}

impl MigrateRunner for MigrateThreads {
    fn run(&mut self, mut courier: Courier) -> io::Result<()> {
        let waker = std::sync::Arc::clone(&self.waker);
        let step = move || {
            loop {
                let step = courier.step(&mut TcpDialer);
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
