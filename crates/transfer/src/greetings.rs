//! Connections that have not authenticated yet. Each has ten seconds for its whole greeting,
//! however it spreads its bytes. They do not occupy transfer slots, and when there are too many, a
//! new one closes the oldest. So clients without the token delay those with it only for a moment.

use std::collections::BTreeMap;
use std::net::{Shutdown, TcpStream};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The time a peer has for the handshake and its request.
const PATIENCE: Duration = Duration::from_secs(10);

/// The most connections that may be greeting at a time.
const GREETINGS_MAX: usize = 256;

/// The connections that are greeting; see the top of this file.
pub(crate) struct Greetings {
    patience: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// By number, so the oldest comes first.
    greeting: BTreeMap<u64, (Instant, TcpStream)>,
    next: u64,
    is_over: bool,
}

/// A connection that is greeting, until this is dropped.
pub(crate) struct Greeting<'a> {
    greetings: &'a Greetings,
    number: u64,
}

impl Drop for Greeting<'_> {
    fn drop(&mut self) {
        self.greetings.lock().greeting.remove(&self.number);
    }
}

impl Default for Greetings {
    fn default() -> Self {
        Self::with_patience(PATIENCE)
    }
}

impl Greetings {
    fn with_patience(patience: Duration) -> Self {
        Self { patience, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Adds a connection that begins its greeting.
    ///
    /// # Errors
    /// If the system has no descriptor left to watch it with.
    pub(crate) fn begin(&self, socket: &TcpStream) -> std::io::Result<Greeting<'_>> {
        let watched = socket.try_clone()?;
        let mut state = self.lock();
        if state.greeting.len() >= GREETINGS_MAX
            && let Some((_, (_, oldest))) = state.greeting.pop_first()
        {
            end(&oldest);
        }
        let number = state.next;
        state.next += 1;
        state.greeting.insert(number, (Instant::now() + self.patience, watched));
        drop(state);
        self.changed.notify_one();
        Ok(Greeting { greetings: self, number })
    }

    /// Ends connections whose time is up, until [`Greetings::close`].
    pub(crate) fn watch(&self) {
        let mut state = self.lock();
        while !state.is_over {
            let now = Instant::now();
            let wait = match state.greeting.first_key_value() {
                None => self.patience,
                Some((_, (deadline, _))) if *deadline > now => *deadline - now,
                Some(_) => {
                    if let Some((_, (_, socket))) = state.greeting.pop_first() {
                        end(&socket);
                    }
                    continue;
                }
            };
            let waited = self.changed.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Ends the watching.
    pub(crate) fn close(&self) {
        self.lock().is_over = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the thread that waits for the other end; it finds the connection closed.
fn end(socket: &TcpStream) {
    let _gone = socket.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    use super::*;

    fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (client, listener.accept().unwrap().0)
    }

    #[test]
    fn a_client_that_spreads_its_greeting_has_no_more_time_than_others() {
        let greetings = Greetings::with_patience(Duration::from_millis(100));
        thread::scope(|scope| {
            scope.spawn(|| greetings.watch());
            let (mut client, mut server) = pair();
            let _greeting = greetings.begin(&server).unwrap();
            scope.spawn(move || while client.write_all(b"x").is_ok() {});
            let mut bytes = [0; 1000];
            while server.read(&mut bytes).is_ok_and(|count| count > 0) {}
            greetings.close();
        });
    }

    #[test]
    fn the_oldest_makes_room_and_what_has_greeted_stays() {
        let greetings = Greetings::default();
        let sockets: Vec<_> = (0..=GREETINGS_MAX).map(|_| pair()).collect();
        drop(greetings.begin(&sockets[0].1).unwrap());
        let _greeting: Vec<_> =
            sockets[1..].iter().map(|(_, server)| greetings.begin(server).unwrap()).collect();
        let (_client, newest) = pair();
        let _newest = greetings.begin(&newest).unwrap();
        let is_ended = |at: usize| {
            let mut socket = &sockets[at].1;
            socket.set_nonblocking(true).unwrap();
            matches!(socket.read(&mut [0]), Ok(0))
        };
        assert!(is_ended(1), "it was the oldest");
        assert!(!is_ended(2));
        assert!(!is_ended(0), "it had greeted");
    }
}
