//! The connections that there are: at most so many, and one that has not shown the token gives way to a new one.
//!
//! ```text
//!   accept ─► room? ── yes ──────────────────────────────► served until it is quiet, stuck or old
//!                └ no: the oldest that is a stranger ends ─►   (all have shown the token: the new one ends)
//! ```

use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::{Sleep, sleep, timeout};

use crate::http::Site;

/// How many connections there are at most.
pub(crate) const GUESTS_MAX: usize = 16;

/// How long a request may take to arrive, and an answer to be read; a connection that is quiet for so long ends.
pub(crate) const REQUEST_WITHIN: Duration = Duration::from_secs(10);

/// How old a connection becomes before it ends with its next answer.
const LIFE: Duration = Duration::from_secs(60);

/// How many bytes a request has at most, and how many lines its head.
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;

/// How long nothing is accepted when the system has no descriptor left.
const REST: Duration = Duration::from_millis(100);

struct Guest {
    /// It has shown the token.
    is_known: Arc<AtomicBool>,
    task: AbortHandle,
}

/// Serves connections until it is told to end.
pub(crate) async fn serve(listener: TcpListener, site: Arc<Site>, mut end: oneshot::Receiver<()>) {
    let mut guests: Vec<Guest> = Vec::new();
    loop {
        let accepted = tokio::select! {
            _ = &mut end => break,
            accepted = listener.accept() => accepted,
        };
        let Ok((stream, _)) = accepted else {
            sleep(REST).await;
            continue;
        };
        guests.retain(|guest| !guest.task.is_finished());
        if guests.len() == GUESTS_MAX {
            let stranger = guests.iter().position(|guest| !guest.is_known.load(Ordering::Relaxed));
            let Some(stranger) = stranger else { continue };
            guests.remove(stranger).task.abort();
        }
        let is_known = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(converse(stream, Arc::clone(&site), Arc::clone(&is_known)));
        guests.push(Guest { is_known, task: task.abort_handle() });
    }
    guests.iter().for_each(|guest| guest.task.abort());
}

async fn converse(stream: TcpStream, site: Arc<Site>, is_known: Arc<AtomicBool>) {
    let service = service_fn(|request| {
        let (site, is_known) = (Arc::clone(&site), Arc::clone(&is_known));
        async move { Ok::<_, std::convert::Infallible>(site.answer(request, &is_known).await) }
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
