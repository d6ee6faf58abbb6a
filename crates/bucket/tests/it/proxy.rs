//! A way to a store that cuts connections, delays what goes through them, and answers in its place that it is busy.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread::spawn;
use std::time::Duration;

/// How many pieces go through a connection that is not cut.
const UNCUT: i64 = i64::MAX;

/// What a store says that wants to be asked later.
const BUSY: &[u8] = b"HTTP/1.1 503 Slow Down\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";

/// What is done to what goes through. Of so many, in thousandths …
#[derive(Default)]
pub(crate) struct Faults {
    /// … pieces it is decided at one that the connection is cut, one to some hundred pieces later, so that a large object has a chance; in whichever
    /// direction that piece goes: the store has done what was asked, or not.
    pub(crate) cut: AtomicU64,
    /// … pieces one waits for a while.
    pub(crate) delayed: AtomicU64,
    /// … connections one is answered that the store is busy.
    pub(crate) busy: AtomicU64,
    /// Conditions are taken out of requests, as by a store that ignores them.
    pub(crate) forgets_conditions: AtomicBool,
    random: AtomicU64,
    /// What was done.
    pub(crate) done: AtomicU64,
}

impl Faults {
    fn random(&self) -> u64 {
        let random = self.random.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        (random ^ random >> 31).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 33
    }

    fn comes(&self, of_thousand: &AtomicU64) -> bool {
        let comes = self.random() % 1000 < of_thousand.load(Ordering::Relaxed);
        self.done.fetch_add(u64::from(comes), Ordering::Relaxed);
        comes
    }
}

/// See the file's top.
pub(crate) struct Proxy {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    pub(crate) faults: Arc<Faults>,
}

impl Proxy {
    /// One on the way to `store`, without faults. It ends with the process.
    pub(crate) fn start(store: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let faults = Arc::new(Faults::default());
        let of_connections = Arc::clone(&faults);
        spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let faults = Arc::clone(&of_connections);
                spawn(move || _ = carry(client, store, &faults));
            }
        });
        Self { address, faults }
    }
}

fn carry(mut client: TcpStream, store: SocketAddr, faults: &Arc<Faults>) -> std::io::Result<()> {
    if faults.comes(&faults.busy) {
        let _request = client.read(&mut [0; 16 << 10])?;
        return client.write_all(BUSY);
    }
    let server = TcpStream::connect(store)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let left = Arc::new(AtomicI64::new(UNCUT));
    let (client_end, server_end) = (client.try_clone()?, server.try_clone()?);
    let (faults_there, left_there) = (Arc::clone(faults), Arc::clone(&left));
    let there = spawn(move || pass(&client_end, &server_end, &faults_there, &left_there));
    pass(&server, &client, faults, &left);
    there.join().unwrap_or_default();
    Ok(())
}

/// Passes pieces on until one end is gone, or the connection is cut.
fn pass(mut from: &TcpStream, mut to: &TcpStream, faults: &Faults, left: &AtomicI64) {
    let mut piece = [0; 16 << 10];
    while let Ok(bytes @ 1..) = from.read(&mut piece) {
        if faults.comes(&faults.delayed) {
            std::thread::sleep(Duration::from_millis(20));
        }
        let condition = b"if-none-match: *";
        let mut found = piece[..bytes].windows(condition.len());
        if faults.forgets_conditions.load(Ordering::Relaxed)
            && let Some(at) = found.position(|part| part == condition)
        {
            piece[at..at + 2].copy_from_slice(b"x-");
        }
        if left.load(Ordering::Relaxed) > UNCUT / 2 && faults.comes(&faults.cut) {
            left.store(1 << (faults.random() % 10), Ordering::Relaxed);
        }
        if left.fetch_sub(1, Ordering::Relaxed) <= 0 || to.write_all(&piece[..bytes]).is_err() {
            break;
        }
    }
    for end in [from, to] {
        let _gone = end.shutdown(Shutdown::Both);
    }
}
