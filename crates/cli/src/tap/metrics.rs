//! Metrics for Prometheus: answers every HTTP request with the counters.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::Duration;

use tap::sidecar::Counters;

/// How long a request may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Answers on `listener` in a thread of its own, until the process ends.
pub(super) fn serve(listener: TcpListener, counters: Arc<Counters>) {
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // A client may go away; the next one is answered all the same.
            let _gone = answer(stream, &counters);
        }
    });
}

fn answer(mut stream: TcpStream, counters: &Counters) -> std::io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let mut reader = BufReader::new(stream.try_clone()?);
    let mut line = String::new();
    // What is asked for makes no difference; the request ends with an empty line.
    for _ in 0..100 {
        line.clear();
        if reader.read_line(&mut line)? == 0 || line.trim().is_empty() {
            break;
        }
    }
    let body = counters.exposition();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n{body}",
        body.len()
    )
}
