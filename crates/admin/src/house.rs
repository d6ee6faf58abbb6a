//! The connections that there are: at most so many, and those that have not shown the token give way to new ones.
//!
//! ```text
//!   accept ─► room? ── yes ───────────────────────────► served until it is quiet, stuck or old
//!                └ no: one gives way ──► it is closed ───┘
//!                        1. a stranger that has had GRACE to show the token: the oldest of the address with the most
//!                        2. without strangers, the viewer that has been quiet for longest
//!                        3. else the first of either, when there is one
//! ```
//!
//! So a flood of connections keeps no viewer out, as long as fewer than about a thousand begin in a second: a new one has the
//! time to show the token. Of more, the kernel lets a viewer try again. There is never a descriptor more than for [`GUESTS_MAX`] and the one that waits for room: what gives way is closed before the next is accepted.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Sleep, sleep, timeout};

use crate::http::Site;

/// How many connections there are at most.
pub(crate) const GUESTS_MAX: usize = 32;

/// How long a new connection has to show the token before it gives way.
const GRACE: Duration = Duration::from_millis(25);

/// How long a request may take to arrive, and an answer to be read; a connection that is quiet for so long ends.
pub(crate) const REQUEST_WITHIN: Duration = Duration::from_secs(10);

/// How old a connection becomes before it ends with its next answer.
const LIFE: Duration = Duration::from_secs(60);

/// How many bytes a request has at most, and how many lines its head.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;

/// How long nothing is accepted when the system has no descriptor left.
const REST: Duration = Duration::from_millis(100);

/// What a connection is, and since when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Standing {
    /// It has not shown the token.
    Stranger(Instant),
    /// It has, and is being answered.
    Busy,
    /// It has, and was answered.
    Quiet(Instant),
}

/// The place of a connection, in which it is noted what it is.
pub(crate) struct Seat(Mutex<Standing>);

impl Seat {
    fn new() -> Self {
        Self(Mutex::new(Standing::Stranger(Instant::now())))
    }

    fn standing(&self) -> MutexGuard<'_, Standing> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// It has shown the token, and is being answered.
    pub(crate) fn welcome(&self) {
        *self.standing() = Standing::Busy;
    }

    /// It was answered.
    pub(crate) fn rest(&self) {
        let mut standing = self.standing();
        if *standing == Standing::Busy {
            *standing = Standing::Quiet(Instant::now());
        }
    }
}

struct Guest {
    address: IpAddr,
    seat: Arc<Seat>,
    task: AbortHandle,
}

/// Which of those that are there, by address and standing, gives way now.
fn giving_way(guests: &[(IpAddr, Standing)], now: Instant) -> Option<usize> {
    let mut crowds: HashMap<IpAddr, usize> = HashMap::new();
    let is_stranger = |it: &&(IpAddr, Standing)| matches!(it.1, Standing::Stranger(_));
    for (address, _) in guests.iter().filter(is_stranger) {
        *crowds.entry(*address).or_default() += 1;
    }
    let all = guests.iter().enumerate();
    if crowds.is_empty() {
        let quiet = all.filter_map(|(at, it)| match it.1 {
            Standing::Quiet(since) => Some((since, at)),
            _ => None,
        });
        return quiet.min().map(|(_, at)| at);
    }
    let old = all.filter_map(|(at, (address, standing))| match standing {
        Standing::Stranger(since) if now.saturating_duration_since(*since) >= GRACE => {
            Some((std::cmp::Reverse(crowds[address]), *since, at))
        }
        _ => None,
    });
    old.min().map(|(_, _, at)| at)
}

/// Serves connections until it is told to end.
pub(crate) async fn serve(listener: TcpListener, site: Arc<Site>, mut end: oneshot::Receiver<()>) {
    let mut house = House::default();
    loop {
        let accepted = tokio::select! {
            _ = &mut end => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, peer)) = accepted else {
            sleep(REST).await;
            continue;
        };
        tokio::select! {
            _ = &mut end => return,
            () = house.make_room() => house.take(stream, peer.ip(), Arc::clone(&site)),
        }
    }
}

/// See the file's top. All end with it.
#[derive(Default)]
struct House {
    guests: Vec<Guest>,
    tasks: JoinSet<()>,
}

impl House {
    /// Waits until there is room for one more.
    async fn make_room(&mut self) {
        while self.tasks.try_join_next().is_some() {}
        while self.tasks.len() >= GUESTS_MAX {
            self.guests.retain(|guest| !guest.task.is_finished());
            let seats = self.guests.iter().map(|guest| (guest.address, *guest.seat.standing()));
            let seats: Vec<_> = seats.collect();
            match giving_way(&seats, Instant::now()) {
                Some(guest) => {
                    self.guests.remove(guest).task.abort();
                    // Its descriptor is free when its task has come to an end.
                    drop(self.tasks.join_next().await);
                }
                None => drop(timeout(GRACE, self.tasks.join_next()).await),
            }
        }
        self.guests.retain(|guest| !guest.task.is_finished());
    }

    fn take(&mut self, stream: TcpStream, address: IpAddr, site: Arc<Site>) {
        let seat = Arc::new(Seat::new());
        let task = self.tasks.spawn(converse(stream, site, Arc::clone(&seat)));
        self.guests.push(Guest { address, seat, task });
    }
}

async fn converse(stream: TcpStream, site: Arc<Site>, seat: Arc<Seat>) {
    let service = service_fn(|request| {
        let (site, seat) = (Arc::clone(&site), Arc::clone(&seat));
        async move { Ok::<_, std::convert::Infallible>(site.answer(request, &seat).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(REQUEST_WITHIN);
    builder.max_headers(HEADERS_MAX).max_buf_size(HEAD_BYTES_MAX);
    let mut served = pin!(builder.serve_connection(TokioIo::new(Impatient::new(stream)), service));
    // What goes wrong on a connection concerns its other end.
    if timeout(LIFE, served.as_mut()).await.is_err() {
        served.as_mut().graceful_shutdown();
        let _ignored = timeout(REQUEST_WITHIN, served).await;
    }
}

/// A stream that fails when its other end does not read for a while.
struct Impatient {
    stream: TcpStream,
    patience: Option<Pin<Box<Sleep>>>,
}

impl Impatient {
    fn new(stream: TcpStream) -> Self {
        Self { stream, patience: None }
    }

    fn judge<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            self.patience = None;
            return written;
        }
        let patience = self.patience.get_or_insert_with(|| Box::pin(sleep(REQUEST_WITHIN)));
        ready!(patience.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Impatient {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Impatient {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.judge(context, written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(context);
        self.judge(context, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ended = Pin::new(&mut self.stream).poll_shutdown(context);
        self.judge(context, ended)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Standing::{Busy, Quiet, Stranger};

    #[test]
    fn strangers_give_way_when_they_have_had_their_time() {
        let now = Instant::now();
        let at = |age_ms| now.checked_sub(Duration::from_millis(age_ms)).unwrap();
        let [near, far] = ["127.0.0.1", "10.1.2.3"].map(|it| it.parse::<IpAddr>().unwrap());
        for (guests, expected) in [
            (
                vec![(near, Quiet(at(900))), (near, Stranger(at(30))), (near, Stranger(at(40)))],
                Some(2),
            ),
            (vec![(near, Quiet(at(900))), (near, Stranger(at(3))), (near, Stranger(at(4)))], None),
            // A flood from one address leaves the others alone.
            (
                vec![(far, Stranger(at(90))), (near, Stranger(at(30))), (near, Stranger(at(40)))],
                Some(2),
            ),
            (vec![(near, Quiet(at(50))), (near, Busy), (near, Quiet(at(60)))], Some(2)),
            (vec![(near, Busy), (far, Busy)], None),
        ] {
            assert_eq!(giving_way(&guests, now), expected, "{guests:?}");
        }
    }

    #[test]
    fn a_seat_that_was_answered_without_the_token_is_a_strangers() {
        let seat = Seat::new();
        seat.rest();
        assert!(matches!(*seat.standing(), Stranger(_)));
        seat.welcome();
        assert_eq!(*seat.standing(), Busy);
        seat.rest();
        assert!(matches!(*seat.standing(), Quiet(_)));
    }
}
