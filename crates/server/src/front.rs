//! I/O threads (`io-threads` above 1): sockets are read and written there, and the engine executes what has come.
//!
//! ```text
//!   front     poll ─ read ─► News::Bytes ──mailbox──► executor: receive … end of iteration
//!   (thread)    └─── write ◄── Order::Send ◄─mailbox──   bytes that may go
//! ```
//!
//! Most of what a small request costs is the kernel's work in `read` and `write` (results/io-threads), so that is what leaves
//! the executor. Parsing stays: a request's arguments lie in what was read, and are executed without being copied.
//!
//! A client belongs to one front, and what is told of it goes through two mailboxes, so everything stays in order. Each mailbox is
//! bounded by what may be under way for a client: one piece of input of at most [`READ_BYTES`], until the executor has
//! executed it and lets the front read again; and output of at most [`AHEAD_BYTES_MAX`] and one piece more, until the front
//! tells that the socket has taken it. The rest waits in the client's output, where limits count it.
//!
//! # Invariants
//! - A front reads from a client only when it may: after `Take`, `Send` that says so, and `Read`, once each. TLS handshakes it does
//!   by itself, and tells of their end before anything else.
//! - What a front tells has the number of the connection ([`Serial`]), as a client's place is used again.
//! - Every byte of `Send` is told of once, in `sent` of the news, unless the connection ends.

use std::collections::VecDeque;
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mio::{Events, Poll, Token, Waker};

use crate::engine::ClientKey;
use crate::handshakes::Handshakes;
use crate::mailbox::Mailbox;
use crate::tls::{Arrival, ReadBuffer};
use crate::transport::Transport;

/// How much is read from a client in one turn.
pub(crate) const READ_BYTES: usize = 64 * 1024;

/// How much of a client's output may be on its way to its socket before more is handed over.
pub(crate) const AHEAD_BYTES_MAX: usize = 64 * 1024;

/// How much is handed over at once.
pub(crate) const SEND_BYTES_MAX: usize = 64 * 1024;

/// When so many bytes were written that nothing has told of, the executor is told: less than it waits for.
const TOLD_BYTES: usize = AHEAD_BYTES_MAX / 2;

const WAKER: Token = Token(0);
const FIRST_CLIENT: usize = 1;

/// The number of a connection, which no other one has.
pub(crate) type Serial = u64;

/// What the executor wants of a front.
pub(crate) enum Order {
    /// A client is this front's from now on.
    Take { key: ClientKey, serial: Serial, transport: Transport },
    /// Bytes for a client. `may_read`: what it sends may be read.
    Send { key: ClientKey, bytes: Vec<u8>, may_read: bool },
    /// What a client sends may be read.
    Read { key: ClientKey },
    /// Tell whenever everything was written, from now on: the connection is about to end.
    Tell { key: ClientKey },
    /// A connection ends.
    Close { key: ClientKey },
    /// The front ends, after what the sockets take without waiting.
    End,
}

/// What a front tells of a client.
#[derive(Debug)]
pub(crate) struct News {
    pub(crate) key: ClientKey,
    pub(crate) serial: Serial,
    /// How many bytes its socket has taken since this was told last.
    pub(crate) sent: usize,
    pub(crate) what: What,
}

#[derive(Debug)]
pub(crate) enum What {
    /// Its TLS handshake is done, and this is the name in its certificate.
    Secured(Option<Vec<u8>>),
    /// It has sent this.
    Bytes(Vec<u8>),
    /// Nothing more than what was sent.
    Sent,
    /// Its socket takes nothing for now, and so many bytes wait for it.
    Stuck(usize),
    /// It will send nothing more.
    Ended,
    /// Its connection is of no use: this was done, and the system, or TLS, said that.
    Failed(Doing, Error),
}

/// What is done with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doing {
    Register,
    Handshake,
    Read,
    Write,
}

/// A client's connection, in its front.
struct Held {
    transport: Transport,
    serial: Serial,
    /// What the socket has not taken, from `start` on.
    unsent: Vec<u8>,
    start: usize,
    /// How many bytes the socket has taken that were not told of.
    untold: usize,
    /// Tell whenever everything was written.
    tells: bool,
    may_read: bool,
    /// The socket may have something to read, and will not say so again.
    is_readable: bool,
    /// The other side sends nothing more: the end must be read behind what it has sent.
    has_ended: bool,
    is_listed: bool,
}

/// A thread with sockets.
struct Front {
    poll: Poll,
    orders: Arc<Mailbox<Order>>,
    mailbox: Arc<Mailbox<News>>,
    /// What is to be told at the end of the iteration.
    news: Vec<News>,
    clients: Vec<Option<Held>>,
    /// Clients to be read from.
    readable: VecDeque<ClientKey>,
    handshakes: Handshakes,
    buffer: ReadBuffer,
}

impl Front {
    fn run(mut self) {
        let (mut events, mut orders) = (Events::with_capacity(1024), Vec::new());
        loop {
            let is_done = self.readable.is_empty() && self.handshakes.is_empty();
            let may_sleep = is_done && self.orders.may_sleep();
            let timeout = (!may_sleep).then_some(Duration::ZERO);
            if let Err(error) = self.poll.poll(&mut events, timeout) {
                assert!(error.kind() == ErrorKind::Interrupted, "an I/O thread waits: {error}");
            }
            for event in events.iter().filter(|event| event.token() != WAKER) {
                let key = ClientKey(event.token().0 - FIRST_CLIENT);
                let Some(client) = held(&mut self.clients, key) else { continue };
                let is_over = event.is_read_closed() || event.is_error();
                client.has_ended |= is_over;
                if event.is_readable() || is_over {
                    client.is_readable = true;
                    self.list(key);
                }
                if event.is_writable() {
                    self.flush(key);
                    self.write(key);
                }
            }
            self.orders.take(&mut orders);
            let is_quiet = events.is_empty() && orders.is_empty() && self.readable.is_empty();
            for order in orders.drain(..) {
                if matches!(order, Order::End) {
                    return;
                }
                self.obey(order);
            }
            for _ in 0..self.readable.len() {
                if let Some(key) = self.readable.pop_front() {
                    self.read(key);
                }
            }
            self.handshakes.begin(Instant::now(), is_quiet);
            while let Some(key) = self.handshakes.next(Instant::now()) {
                self.read(key);
            }
            self.mailbox.put(&mut self.news);
        }
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Take { key, serial, transport } => self.hold(key, serial, transport),
            Order::Send { key, bytes, may_read } => {
                self.send(key, bytes);
                if may_read {
                    self.let_read(key);
                }
            }
            Order::Read { key } => self.let_read(key),
            Order::Tell { key } => {
                if let Some(client) = held(&mut self.clients, key) {
                    client.tells = true;
                    self.write(key);
                }
            }
            // Dropping the socket closes it, which also ends its registration.
            Order::Close { key } => self.clients[key.0] = None,
            Order::End => {}
        }
    }

    fn hold(&mut self, key: ClientKey, serial: Serial, mut transport: Transport) {
        if let Err(error) = transport.register(self.poll.registry(), Token(FIRST_CLIENT + key.0)) {
            self.news.push(News {
                key,
                serial,
                sent: 0,
                what: What::Failed(Doing::Register, error),
            });
        }
        if self.clients.len() <= key.0 {
            self.clients.resize_with(key.0 + 1, || None);
        }
        self.clients[key.0] = Some(Held {
            transport,
            serial,
            unsent: Vec::new(),
            start: 0,
            untold: 0,
            tells: false,
            may_read: true,
            is_readable: false,
            has_ended: false,
            is_listed: false,
        });
    }

    fn let_read(&mut self, key: ClientKey) {
        if let Some(client) = held(&mut self.clients, key) {
            client.may_read = true;
            self.list(key);
        }
    }

    fn list(&mut self, key: ClientKey) {
        if let Some(client) = held(&mut self.clients, key)
            && client.is_readable
            && client.may_read
            && !std::mem::replace(&mut client.is_listed, true)
        {
            if client.transport.is_handshaking() {
                self.handshakes.push(key, client.transport.has_begun());
            } else {
                self.readable.push_back(key);
            }
        }
    }

    /// Gives a client its turn.
    fn read(&mut self, key: ClientKey) {
        let Some(client) = held(&mut self.clients, key) else { return };
        client.is_listed = false;
        if !client.may_read {
            // The place was another client's when it was listed.
            return;
        }
        let is_handshaking = client.transport.is_handshaking();
        let what = match client.transport.read(&mut self.buffer) {
            Ok(Arrival::End) => What::Ended,
            Ok(Arrival::Opened) => {
                let name = client.transport.peer_name();
                self.tell(key, What::Secured(name));
                return self.list(key);
            }
            Ok(Arrival::Bytes { count, is_drained }) => {
                // A socket that is empty tells when it is not. Its end, though, it may have told already.
                client.is_readable = !is_drained || client.has_ended;
                if count == 0 {
                    return self.list(key);
                }
                What::Bytes(self.buffer.first(count).to_vec())
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                client.is_readable = false;
                return;
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => return self.list(key),
            Err(error) if is_handshaking => What::Failed(Doing::Handshake, error),
            Err(error) => What::Failed(Doing::Read, error),
        };
        client.may_read = false;
        self.tell(key, what);
    }

    /// Sends what is left of records, as far as the socket takes it.
    fn flush(&mut self, key: ClientKey) {
        if let Some(client) = held(&mut self.clients, key)
            && let Err(error) = client.transport.flush()
        {
            self.tell(key, What::Failed(Doing::Write, error));
        }
    }

    /// Tells of a client, and how much its socket has taken.
    fn tell(&mut self, key: ClientKey, what: What) {
        if let Some(client) = held(&mut self.clients, key) {
            let sent = std::mem::take(&mut client.untold);
            self.news.push(News { key, serial: client.serial, sent, what });
        }
    }

    fn send(&mut self, key: ClientKey, bytes: Vec<u8>) {
        let Some(client) = held(&mut self.clients, key) else { return };
        if client.unsent.is_empty() {
            (client.unsent, client.start) = (bytes, 0);
            self.write(key);
        } else {
            // The socket takes nothing for now, and tells when it does.
            client.unsent.drain(..std::mem::take(&mut client.start));
            client.unsent.extend_from_slice(&bytes);
            let left = client.unsent.len();
            self.tell(key, What::Stuck(left));
        }
    }

    /// Writes what waits, as far as the socket takes it.
    fn write(&mut self, key: ClientKey) {
        let Some(client) = held(&mut self.clients, key) else { return };
        while client.start < client.unsent.len() {
            let unsent = IoSlice::new(&client.unsent[client.start..]);
            match client.transport.write(&[unsent]) {
                Ok(0) => {
                    let error = ErrorKind::WriteZero.into();
                    return self.tell(key, What::Failed(Doing::Write, error));
                }
                Ok(count) => {
                    client.start += count;
                    client.untold += count;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let left = client.unsent.len() - client.start;
                    return self.tell(key, What::Stuck(left));
                }
                Err(error) => return self.tell(key, What::Failed(Doing::Write, error)),
            }
        }
        (client.unsent, client.start) = (Vec::new(), 0);
        if client.untold >= TOLD_BYTES || client.tells {
            self.tell(key, What::Sent);
        }
    }
}

fn held(clients: &mut [Option<Held>], key: ClientKey) -> Option<&mut Held> {
    clients.get_mut(key.0)?.as_mut()
}

/// One front, as the executor knows it.
struct Known {
    mailbox: Arc<Mailbox<Order>>,
    /// What it is to be told at the end of the iteration.
    orders: Vec<Order>,
    client_count: usize,
    thread: JoinHandle<()>,
}

/// The fronts, as the executor knows them; none where it reads and writes by itself.
pub(crate) struct Fronts {
    all: Vec<Known>,
    news: Arc<Mailbox<News>>,
    serial: Serial,
}

impl Fronts {
    /// Returns an empty list; `waker` is of the poll in which the executor waits.
    pub(crate) fn new(waker: Arc<Waker>) -> Self {
        Self { all: Vec::new(), news: Arc::new(Mailbox::new(waker)), serial: 0 }
    }

    /// Starts so many threads.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn start(&mut self, count: usize) -> Result<()> {
        for number in 1..=count {
            let poll = Poll::new()?;
            let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
            let orders = Arc::new(Mailbox::new(waker));
            let front = Front {
                poll,
                orders: Arc::clone(&orders),
                mailbox: Arc::clone(&self.news),
                news: Vec::new(),
                clients: Vec::new(),
                readable: VecDeque::new(),
                handshakes: Handshakes::default(),
                buffer: ReadBuffer::new(READ_BYTES),
            };
            let thread = thread::Builder::new().name(format!("io-{number}"));
            let thread = thread.spawn(move || front.run())?;
            self.all.push(Known { mailbox: orders, orders: Vec::new(), client_count: 0, thread });
        }
        Ok(())
    }

    /// Returns whether the executor reads and writes by itself.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Whether the executor may sleep: what a front tells wakes it.
    pub(crate) fn may_sleep(&self) -> bool {
        self.news.may_sleep()
    }

    /// Takes what was told, into an empty list.
    pub(crate) fn take_news(&self, into: &mut Vec<News>) {
        self.news.take(into);
    }

    /// Gives a client to the front that has the fewest. Returns which that is, and the connection's number.
    pub(crate) fn give(&mut self, key: ClientKey, transport: Transport) -> (usize, Serial) {
        let counts = self.all.iter().map(|front| front.client_count).enumerate();
        let (front, _) = counts.min_by_key(|(_, count)| *count).expect("there are fronts");
        self.serial += 1;
        let serial = self.serial;
        self.all[front].client_count += 1;
        self.order(front, Order::Take { key, serial, transport });
        (front, serial)
    }

    /// A client's connection ends.
    pub(crate) fn close(&mut self, front: usize, key: ClientKey) {
        self.all[front].client_count -= 1;
        self.order(front, Order::Close { key });
    }

    /// Tells a front at the end of the iteration.
    pub(crate) fn order(&mut self, front: usize, order: Order) {
        self.all[front].orders.push(order);
    }

    /// Tells the fronts what they were ordered.
    pub(crate) fn flush(&mut self) {
        for front in &mut self.all {
            front.mailbox.put(&mut front.orders);
        }
    }

    /// Ends the threads, when they have written what sockets take without waiting.
    pub(crate) fn end(&mut self) {
        for front in &mut self.all {
            front.orders.push(Order::End);
        }
        self.flush();
        for front in self.all.drain(..) {
            front.thread.join().expect("an I/O thread does not panic");
        }
    }
}
