//! Messages to a thread that sleeps in a poll when there are none.
//!
//! ```text
//!   senders ── put, many at once ──► [ message message … ] ── take, all at once ──► receiver
//!                  └── wakes its poll if it sleeps
//! ```
//!
//! Both sides gather messages while they work and move them under one lock, so that a lock, and a system call to wake
//! the other side, are taken once for what was done in an iteration and not for each message.
//!
//! # Invariants
//! - Messages of one sender come in the order in which it put them in.
//! - The receiver says that it sleeps only while there are no messages, under the lock, and the sender that puts some in
//!   then wakes it: no message waits for a sleeper.
//! - How many there may be is up to what they ask for: see `front`.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mio::Waker;

/// See the file's top.
pub(crate) struct Mailbox<T> {
    inner: Mutex<Inner<T>>,
    waker: Arc<Waker>,
}

struct Inner<T> {
    messages: Vec<T>,
    is_asleep: bool,
}

impl<T> Mailbox<T> {
    /// An empty one, whose receiver polls what `waker` belongs to.
    pub(crate) fn new(waker: Arc<Waker>) -> Self {
        Self { inner: Mutex::new(Inner { messages: Vec::new(), is_asleep: false }), waker }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts messages in and leaves `messages` empty.
    pub(crate) fn put(&self, messages: &mut Vec<T>) {
        if messages.is_empty() {
            return;
        }
        let mut inner = self.lock();
        if inner.messages.is_empty() {
            mem::swap(&mut inner.messages, messages);
        } else {
            inner.messages.append(messages);
        }
        let is_asleep = mem::take(&mut inner.is_asleep);
        drop(inner);
        if is_asleep {
            self.waker.wake().expect("a counter of the kernel can be added to");
        }
    }

    /// Takes all messages out, into an empty list.
    pub(crate) fn take(&self, into: &mut Vec<T>) {
        assert!(into.is_empty(), "what was taken before is dealt with");
        let mut inner = self.lock();
        inner.is_asleep = false;
        mem::swap(&mut inner.messages, into);
    }

    /// Whether the receiver may sleep: there are no messages, and the next ones wake it.
    pub(crate) fn may_sleep(&self) -> bool {
        let mut inner = self.lock();
        inner.is_asleep = inner.messages.is_empty();
        inner.is_asleep
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mio::{Events, Poll, Token};
    use std::thread;

    #[test]
    fn every_message_comes_once_and_in_order_to_a_receiver_that_sleeps() {
        let (senders, count) = (3, 20_000);
        let mut poll = Poll::new().unwrap();
        let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
        let mailbox = Arc::new(Mailbox::new(waker));
        let threads: Vec<_> = (0..senders)
            .map(|sender| {
                let mailbox = Arc::clone(&mailbox);
                thread::spawn(move || {
                    let mut messages = Vec::new();
                    for number in 0..count {
                        messages.push((sender, number));
                        if number % (sender + 2) == 0 || number + 1 == count {
                            mailbox.put(&mut messages);
                        }
                    }
                })
            })
            .collect();
        let (mut next, mut taken, mut events) =
            (vec![0; senders], Vec::new(), Events::with_capacity(4));
        while next.iter().any(|next| *next < count) {
            if mailbox.may_sleep() {
                poll.poll(&mut events, None).unwrap();
            }
            mailbox.take(&mut taken);
            for (sender, number) in taken.drain(..) {
                assert_eq!(number, next[sender]);
                next[sender] += 1;
            }
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(mailbox.may_sleep(), "nothing is left");
    }
}
