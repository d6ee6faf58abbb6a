//! The event loop: sockets in, sockets out, the engine in between, all in one thread; or the sockets in others, see
//! [`crate::front`].
//!
//! ```text
//!   wait ─► accept ─► read what is there ─► engine executes ─► end of iteration: the engine seals
//!     ▲                (a bounded piece a client)                the log's block if it is time
//!     └────────────── write what may go ◄────────────────────────┘
//! ```
//!
//! Replies that wait for the log go out in a later iteration: a flusher wakes the loop when its
//! block is durable. Sockets are edge-triggered: one that may have more to read stays on a list and
//! gets its next turn after all others had theirs. Where fronts read, what they have read has its turn. TLS handshakes have a
//! turn of their own, which is short: [`crate::handshakes`].

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::net::UnixListener;
use mio::{Events, Interest, Poll, Token, Waker};

use crate::descriptors::Descriptors;
use crate::engine::{ClientKey, Engine, HostRequest, Peer, Shutdown};
use crate::error::ServeError;
use crate::front::{
    AHEAD_BYTES_MAX, Doing, Fronts, News, Order, READ_BYTES, SEND_BYTES_MAX, Serial, What,
};
use crate::handshakes::Handshakes;
use crate::listen::{self, Accepted, Listeners, Opened, SharedListeners};
use crate::logger::{Logger, SparseWarning};
use crate::network::{Network, Wire};
use crate::stream::Stream;
use crate::tls::{Acceptor, Arrival, ReadBuffer};
use crate::transport::Transport;

/// About how much is sent to a client in one turn.
const WRITE_BYTES: usize = 1024 * 1024;

/// How many connections are accepted in one turn.
const ACCEPTS_MAX: usize = 1000;

/// How soon a listener is tried again that had too many connections, or that failed because there
/// were no more file descriptors.
const ACCEPT_AGAIN: Duration = Duration::from_millis(5);

const WAKER: Token = Token(0);
const UNIX_LISTENER: Token = Token(1);
const FIRST_TCP_LISTENER: usize = 2;
const FIRST_CLIENT: usize = 64;

/// A connection.
struct Connection {
    place: Place,
    /// The other side sends nothing more: the end must be read behind what it has sent.
    has_ended: bool,
    /// It is on the list of those to read from.
    is_listed: bool,
}

/// Where a connection's socket is.
enum Place {
    Here(Transport),
    /// In an I/O thread.
    Front(Remote),
}

/// A connection whose socket is in an I/O thread.
struct Remote {
    front: usize,
    serial: Serial,
    /// What the front has read and the engine has not seen.
    arrived: Option<Vec<u8>>,
    /// The front waits until it may read more.
    owes_read: bool,
    /// How many bytes were handed over, of which the front has not told that they are sent.
    ahead: usize,
    /// It ends when those are sent.
    is_finishing: bool,
}

impl Remote {
    fn new((front, serial): (usize, Serial)) -> Self {
        Self { front, serial, arrived: None, owes_read: false, ahead: 0, is_finishing: false }
    }
}

/// What the reactor asks between two iterations.
pub(crate) trait LoopHooks {
    /// Something outside has woken the loop.
    ///
    /// # Errors
    /// Why the server cannot go on.
    fn look(&mut self, engine: &mut Engine) -> Result<(), ServeError>;

    /// An iteration has ended.
    fn turn(&mut self, engine: &Engine);

    /// The engine wants something done.
    ///
    /// # Errors
    /// Why the server cannot go on.
    fn run_request(&mut self, engine: &mut Engine, request: HostRequest) -> Result<(), ServeError>;
}

/// See the file's top.
pub(crate) struct Reactor {
    poll: Poll,
    tcp_listeners: SharedListeners,
    unix_listener: Option<UnixListener>,
    connections: Vec<Option<Connection>>,
    /// Listeners that may have more connections, and will not say so again.
    unfinished: Vec<Token>,
    /// Connections that may have something to read.
    readable: VecDeque<ClientKey>,
    /// Connections that may have something to read, and must wait until the log keeps up.
    held_back: Vec<ClientKey>,
    handshakes: Handshakes,
    buffer: ReadBuffer,
    fronts: Fronts,
    /// See [`AHEAD_BYTES_MAX`]; no bound before the end.
    ahead_bytes_max: usize,
    /// Memory for what fronts tell.
    news: Vec<News>,
    /// Connections whose front may read more when the iteration ends.
    owed: Vec<ClientKey>,
    waker: Arc<Waker>,
    accept_fails: SparseWarning,
    handshake_fails: SparseWarning,
    logger: Logger,
}

impl Reactor {
    /// A loop over these sockets.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn new(
        tcp: Vec<Opened>,
        acceptor: Option<Acceptor>,
        unix: Option<std::os::unix::net::UnixListener>,
        logger: Logger,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let registry = poll.registry().try_clone()?;
        let listeners = Listeners::new(registry, FIRST_TCP_LISTENER, tcp, acceptor)?;
        let tcp_listeners = SharedListeners(Rc::new(RefCell::new(listeners)));
        let mut unix_listener = unix.map(UnixListener::from_std);
        if let Some(listener) = &mut unix_listener {
            poll.registry().register(listener, UNIX_LISTENER, Interest::READABLE)?;
        }
        let waker = Arc::new(Waker::new(poll.registry(), WAKER)?);
        Ok(Self {
            poll,
            tcp_listeners,
            unix_listener,
            connections: Vec::new(),
            unfinished: Vec::new(),
            readable: VecDeque::new(),
            held_back: Vec::new(),
            handshakes: Handshakes::default(),
            buffer: ReadBuffer::new(READ_BYTES),
            fronts: Fronts::new(Arc::clone(&waker)),
            ahead_bytes_max: AHEAD_BYTES_MAX,
            news: Vec::new(),
            owed: Vec::new(),
            waker,
            accept_fails: SparseWarning::default(),
            handshake_fails: SparseWarning::default(),
            logger,
        })
    }

    /// Starts so many I/O threads, which read and write from now on.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn start_fronts(&mut self, count: usize) -> io::Result<()> {
        self.fronts.start(count)
    }

    /// Wakes the loop from another thread.
    pub(crate) fn waker(&self) -> Arc<Waker> {
        Arc::clone(&self.waker)
    }

    /// What listens for clients, for the engine.
    pub(crate) fn network(&self) -> Box<dyn Network> {
        Box::new(self.tcp_listeners.clone())
    }

    /// Runs until the server is to end.
    ///
    /// # Errors
    /// Why the server cannot go on.
    pub(crate) fn run(
        &mut self,
        engine: &mut Engine,
        hooks: &mut dyn LoopHooks,
    ) -> Result<Shutdown, ServeError> {
        let mut events = Events::with_capacity(1024);
        loop {
            let timeout = self.timeout(engine);
            engine.end_turn();
            if let Err(error) = self.poll.poll(&mut events, Some(timeout))
                && error.kind() != ErrorKind::Interrupted
            {
                return Err(ServeError::Wait(error));
            }
            engine.begin_turn();
            for event in &events {
                match event.token() {
                    WAKER => hooks.look(engine)?,
                    token if token.0 < FIRST_CLIENT => self.accept(token, engine),
                    Token(index) => {
                        let key = ClientKey(index - FIRST_CLIENT);
                        if event.is_readable() || event.is_read_closed() || event.is_error() {
                            if event.is_read_closed() || event.is_error() {
                                self.note_end(key);
                            }
                            self.list(key);
                        }
                        if event.is_writable() {
                            self.flush(key, engine);
                            self.write(key, engine);
                        }
                    }
                }
            }
            for token in std::mem::take(&mut self.unfinished) {
                self.accept(token, engine);
            }
            let is_quiet = events.is_empty() && !self.hear_fronts(engine);
            self.read_all(engine);
            self.shake_hands(engine);
            engine.tick();
            engine.end_iteration(is_quiet && self.readable.is_empty());
            hooks.turn(engine);
            if let Some(request) = engine.take_request() {
                hooks.run_request(engine, request)?;
            }
            self.write_all(engine);
            self.tell_fronts();
            if let Some(shutdown) = engine.shutdown_requested() {
                return Ok(shutdown);
            }
        }
    }

    /// Sends what may be sent without waiting, to each client that has something a piece. Those
    /// that have more are noted again, for when the others were listened to.
    pub(crate) fn write_all(&mut self, engine: &mut Engine) {
        for _ in 0..engine.noted_count() {
            let Some(key) = engine.next_noted() else { return };
            self.write(key, engine);
        }
    }

    /// Sends all that the sockets take, without waiting: before the end.
    pub(crate) fn write_last(&mut self, engine: &mut Engine) {
        if !self.fronts.is_empty() {
            // Nothing is told of any more, so that nothing waits for it.
            self.ahead_bytes_max = usize::MAX;
            engine.look_at_all();
        }
        while engine.noted_count() > 0 {
            self.write_all(engine);
        }
        self.fronts.end();
    }

    /// How long nothing has to be done unless something happens.
    fn timeout(&self, engine: &mut Engine) -> Duration {
        let is_let_go = |key: &ClientKey| !engine.is_held_back(*key);
        let is_more = self.held_back.iter().any(is_let_go);
        if is_more || !self.readable.is_empty() || !self.handshakes.is_empty() {
            return Duration::ZERO;
        }
        let timeout = Duration::from_micros(engine.until_next_event_us());
        if timeout.is_zero() || (!self.fronts.is_empty() && !self.fronts.may_sleep()) {
            return Duration::ZERO;
        }
        if self.unfinished.is_empty() { timeout } else { timeout.min(ACCEPT_AGAIN) }
    }

    /// Takes note of what I/O threads have read and written. Whether that was anything.
    fn hear_fronts(&mut self, engine: &mut Engine) -> bool {
        if self.fronts.is_empty() {
            return false;
        }
        let mut all = std::mem::take(&mut self.news);
        self.fronts.take_news(&mut all);
        let is_news = !all.is_empty();
        for news in all.drain(..) {
            self.hear(news, engine);
        }
        self.news = all;
        is_news
    }

    fn hear(&mut self, news: News, engine: &mut Engine) {
        let News { key, serial, sent, what } = news;
        let Some(Some(connection)) = self.connections.get_mut(key.0) else { return };
        let Place::Front(remote) = &mut connection.place else { return };
        if remote.serial != serial {
            // That was another one, which has ended meanwhile.
            return;
        }
        let was_full = remote.ahead > self.ahead_bytes_max;
        remote.ahead = remote.ahead.saturating_sub(sent);
        let is_finished = remote.is_finishing && remote.ahead == 0;
        match what {
            What::Secured(name) => engine.secured(key, name.as_deref()),
            What::Bytes(bytes) => {
                remote.arrived = Some(bytes);
                self.list(key);
            }
            What::Sent => {}
            What::Stuck(unsent) => engine.stuck(key, unsent),
            What::Ended => {
                connection.has_ended = true;
                self.list(key);
            }
            What::Failed(doing, error) => return self.fail(key, doing, &error, engine),
        }
        if is_finished || was_full {
            self.write(key, engine);
        }
    }

    /// Lets I/O threads read on, and tells them what there is to send.
    fn tell_fronts(&mut self) {
        for key in self.owed.drain(..) {
            if let Some(Some(connection)) = self.connections.get_mut(key.0)
                && let Place::Front(remote) = &mut connection.place
                && std::mem::take(&mut remote.owes_read)
            {
                self.fronts.order(remote.front, Order::Read { key });
            }
        }
        self.fronts.flush();
    }

    fn note_end(&mut self, key: ClientKey) {
        if let Some(Some(connection)) = self.connections.get_mut(key.0) {
            connection.has_ended = true;
        }
    }

    fn list(&mut self, key: ClientKey) {
        if let Some(Some(connection)) = self.connections.get_mut(key.0)
            && !std::mem::replace(&mut connection.is_listed, true)
        {
            match &connection.place {
                Place::Here(transport) if transport.is_handshaking() => self.handshakes.push(key),
                _ => self.readable.push_back(key),
            }
        }
    }

    /// Gives handshakes their turn.
    fn shake_hands(&mut self, engine: &mut Engine) {
        self.handshakes.begin(Instant::now());
        while let Some(key) = self.handshakes.next(Instant::now()) {
            if let Some(Some(connection)) = self.connections.get_mut(key.0) {
                connection.is_listed = false;
                self.read(key, engine);
            }
        }
    }

    /// Gives every connection that may have something to read one turn.
    fn read_all(&mut self, engine: &mut Engine) {
        let readable = &mut self.readable;
        self.held_back.retain(|key| {
            let is_held = engine.is_held_back(*key);
            if !is_held {
                readable.push_back(*key);
            }
            is_held
        });
        for _ in 0..self.readable.len() {
            let Some(key) = self.readable.pop_front() else { return };
            if engine.is_held_back(key) {
                self.held_back.push(key);
            } else if let Some(Some(connection)) = self.connections.get_mut(key.0) {
                connection.is_listed = false;
                self.read(key, engine);
            }
        }
    }

    fn read(&mut self, key: ClientKey, engine: &mut Engine) {
        let Some(Some(connection)) = self.connections.get_mut(key.0) else { return };
        if !engine.is_listened_to(key) {
            return;
        }
        let transport = match &mut connection.place {
            Place::Here(transport) => transport,
            Place::Front(remote) => {
                let Some(bytes) = remote.arrived.take() else {
                    if connection.has_ended && engine.end_of_input(key) {
                        self.finish(key, engine);
                    }
                    return;
                };
                remote.owes_read = true;
                self.owed.push(key);
                engine.receive(key, &bytes);
                engine.seal_if_large();
                return;
            }
        };
        let doing = if transport.is_handshaking() { Doing::Handshake } else { Doing::Read };
        match transport.read(&mut self.buffer) {
            Ok(Arrival::End) => {
                if engine.end_of_input(key) {
                    self.close(key, engine);
                }
            }
            Ok(Arrival::Opened) => {
                engine.secured(key, transport.peer_name().as_deref());
                self.list(key);
            }
            Ok(Arrival::Bytes { count, is_drained }) => {
                // A socket that is empty tells when it is not. Its end, though, it may have told already.
                let is_drained = is_drained && !connection.has_ended;
                if count > 0 {
                    engine.receive(key, self.buffer.first(count));
                    engine.seal_if_large();
                }
                if !is_drained {
                    self.list(key);
                }
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => self.list(key),
            Err(error) => self.fail(key, doing, &error, engine),
        }
    }

    /// Ends a connection that is of no use.
    fn fail(&mut self, key: ClientKey, doing: Doing, error: &io::Error, engine: &mut Engine) {
        match doing {
            Doing::Handshake => {
                let message = format!("Error accepting a client connection: {error}");
                self.handshake_fails.write(&self.logger, &message);
            }
            Doing::Register => self.logger.warning(&format!("Registering a client: {error}")),
            Doing::Read => self.logger.verbose(&format!("Reading from client: {error}")),
            Doing::Write => self.logger.verbose(&format!("Error writing to client: {error}")),
        }
        self.close(key, engine);
    }

    /// Sends what is left of records, as far as the socket takes it.
    fn flush(&mut self, key: ClientKey, engine: &mut Engine) {
        if let Some(Some(connection)) = self.connections.get_mut(key.0)
            && let Place::Here(transport) = &mut connection.place
            && let Err(error) = transport.flush()
        {
            self.fail(key, Doing::Write, &error, engine);
        }
    }

    fn write(&mut self, key: ClientKey, engine: &mut Engine) {
        let mut written = 0;
        loop {
            let Some(Some(connection)) = self.connections.get_mut(key.0) else { return };
            let transport = match &mut connection.place {
                Place::Here(transport) => transport,
                Place::Front(_) => return self.hand_over(key, engine),
            };
            let outgoing = engine.outgoing(key);
            let (len, is_all, ends) = (outgoing.bytes.len(), outgoing.is_all, outgoing.ends);
            if len == 0 {
                if ends {
                    self.close(key, engine);
                }
                return;
            }
            match transport.write(outgoing.bytes.slices()) {
                Ok(count) => {
                    engine.sent(key, count);
                    if count == len && ends {
                        self.close(key, engine);
                        return;
                    }
                    if count < len && !transport.takes_pieces() {
                        // What is left waits until the socket says that there is room.
                        engine.stuck(key, 0);
                        return;
                    }
                    if count == len && is_all {
                        return;
                    }
                    written += count;
                    if written >= WRITE_BYTES {
                        // Others have their turn first.
                        engine.look_at(key);
                        return;
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    engine.stuck(key, 0);
                    return;
                }
                Err(error) => return self.fail(key, Doing::Write, &error, engine),
            }
        }
    }

    /// Hands over to a client's I/O thread what may be sent, as far as it may be on its way.
    fn hand_over(&mut self, key: ClientKey, engine: &mut Engine) {
        loop {
            let Some(Some(connection)) = self.connections.get_mut(key.0) else { return };
            let Place::Front(remote) = &mut connection.place else { return };
            let outgoing = engine.outgoing(key);
            if outgoing.is_cut {
                return self.close(key, engine);
            }
            if outgoing.bytes.is_empty() {
                if outgoing.ends {
                    self.finish(key, engine);
                }
                return;
            }
            if remote.ahead > self.ahead_bytes_max {
                // It goes on when the front has told that the socket takes more.
                return;
            }
            let bytes = outgoing.bytes.first(SEND_BYTES_MAX);
            let is_all = outgoing.is_all && bytes.len() == outgoing.bytes.len();
            let ends = outgoing.ends && is_all;
            let (count, may_read) = (bytes.len(), std::mem::take(&mut remote.owes_read));
            remote.ahead += count;
            self.fronts.order(remote.front, Order::Send { key, bytes, may_read });
            engine.sent(key, count);
            if ends {
                return self.finish(key, engine);
            }
            if is_all {
                return;
            }
        }
    }

    /// Closes a connection when its I/O thread has sent what was handed over.
    fn finish(&mut self, key: ClientKey, engine: &mut Engine) {
        if let Some(Some(connection)) = self.connections.get_mut(key.0)
            && let Place::Front(remote) = &mut connection.place
            && remote.ahead > 0
        {
            if !std::mem::replace(&mut remote.is_finishing, true) {
                self.fronts.order(remote.front, Order::Tell { key });
                engine.finish(key);
            }
        } else {
            self.close(key, engine);
        }
    }

    fn close(&mut self, key: ClientKey, engine: &mut Engine) {
        // Dropping the socket closes it, which also ends its registration.
        let closed = self.connections.get_mut(key.0).and_then(Option::take);
        if let Some(Connection { place: Place::Front(remote), .. }) = closed {
            self.fronts.close(remote.front, key);
        }
        engine.remove(key);
    }

    /// Accepts what waits at a listener.
    fn accept(&mut self, listener: Token, engine: &mut Engine) {
        for _ in 0..ACCEPTS_MAX {
            let accepted = match listener {
                UNIX_LISTENER => self.accept_unix(engine),
                token => self.accept_tcp(token, engine),
            };
            match accepted {
                Ok((stream, peer)) => self.add(stream, peer, engine),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) => {
                    // Without descriptors every turn fails.
                    let message = format!("Accepting client connection: {error}");
                    self.accept_fails.write(&self.logger, &message);
                    break;
                }
            }
        }
        self.unfinished.push(listener);
    }

    fn accept_tcp(&self, token: Token, engine: &Engine) -> io::Result<(Stream, Peer)> {
        let Accepted { stream, address, wire } = self.tcp_listeners.0.borrow().accept(token)?;
        listen::prepare(&stream, engine.config().number("tcp-keepalive"));
        let peer = Peer {
            address: address.to_string(),
            local_address: stream.local_addr().map(|local| local.to_string()).unwrap_or_default(),
            is_loopback: address.ip().to_canonical().is_loopback(),
            is_unix_socket: false,
            is_tls: wire == Wire::Tls,
            socket: stream.as_raw_fd(),
        };
        Ok((Stream::Tcp(stream), peer))
    }

    fn accept_unix(&self, engine: &Engine) -> io::Result<(Stream, Peer)> {
        let listener = self.unix_listener.as_ref().ok_or(ErrorKind::WouldBlock)?;
        let (stream, _) = listener.accept()?;
        let path = engine.config().value("unixsocket").to_owned() + ":0";
        let peer = Peer {
            address: path.clone(),
            local_address: path,
            is_loopback: true,
            is_unix_socket: true,
            is_tls: false,
            socket: stream.as_raw_fd(),
        };
        Ok((Stream::Unix(stream), peer))
    }

    fn add(&mut self, mut stream: Stream, peer: Peer, engine: &mut Engine) {
        let devices = engine.config().words("log-devices").count();
        let is_reserved = Descriptors::with_devices(devices).is_reserved(peer.socket);
        let wire = if peer.is_tls { Wire::Tls } else { Wire::Plain };
        let connected = if is_reserved { Err(engine.reject()) } else { engine.connect(peer) };
        let key = match connected {
            Ok(key) => key,
            Err(refusal) => {
                // Best effort: the connection ends either way. In TLS nothing can be said before the handshake.
                if wire == Wire::Plain {
                    let _ignored = stream.write(refusal);
                }
                return;
            }
        };
        let transport = self.tcp_listeners.0.borrow().transport(wire, stream);
        let token = Token(FIRST_CLIENT + key.0);
        let placed = transport.and_then(|mut transport| {
            if self.fronts.is_empty() {
                transport.register(self.poll.registry(), token)?;
                return Ok(Place::Here(transport));
            }
            Ok(Place::Front(Remote::new(self.fronts.give(key, transport))))
        });
        let place = match placed {
            Ok(place) => place,
            Err(error) => return self.fail(key, Doing::Register, &error, engine),
        };
        if self.connections.len() <= key.0 {
            self.connections.resize_with(key.0 + 1, || None);
        }
        self.connections[key.0] = Some(Connection { place, has_ended: false, is_listed: false });
    }
}
