//! A server that speaks the protocol and keeps nothing: `cargo run -p indelible-resp --example echo_server -- PORT`
//!
//! It answers PING and ECHO, in RESP2, one client at a time. Input and output are the caller's: the
//! crate sees buffers only.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use resp::{Limits, Parsed, Parser, Protocol, Writer};

/// Serves one client until it closes the connection.
fn serve(mut client: TcpStream) -> Result<(), Box<dyn Error>> {
    let (mut parser, mut writer) = (Parser::new(), Writer::new(Protocol::Resp2));
    let (mut input, mut chunk) = (Vec::new(), [0; 4096]);
    loop {
        let count = client.read(&mut chunk)?;
        if count == 0 {
            return Ok(());
        }
        input.extend_from_slice(&chunk[..count]);
        // A read may hold several requests, or part of one.
        while let Parsed::Request { len } = parser.parse(&input, &Limits::default())? {
            let arguments: Vec<&[u8]> = parser.args(&input).collect();
            match arguments.as_slice() {
                [] => {}
                [name] if name.eq_ignore_ascii_case(b"ping") => writer.simple("PONG"),
                [name, text] if name.eq_ignore_ascii_case(b"echo") => writer.bulk(text),
                _ => writer.error("ERR this server knows PING and ECHO"),
            }
            input.drain(..len);
        }
        client.write_all(&writer.take())?;
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let port: u16 = std::env::args().nth(1).ok_or("which port?")?.parse()?;
    for client in TcpListener::bind(("127.0.0.1", port))?.incoming() {
        serve(client?)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_answered_in_whatever_pieces_they_come() -> Result<(), Box<dyn Error>> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let mut client = TcpStream::connect(listener.local_addr()?)?;
        let (accepted, _) = listener.accept()?;
        let server = std::thread::spawn(move || serve(accepted).map_err(|error| error.to_string()));
        for piece in ["PING\r\n*2\r\n$4\r\nEC", "HO\r\n$5\r\nhel", "lo\r\nGET k\r\n"] {
            client.write_all(piece.as_bytes())?;
        }
        client.shutdown(std::net::Shutdown::Write)?;
        let mut answer = String::new();
        client.read_to_string(&mut answer)?;
        assert_eq!(answer, "+PONG\r\n$5\r\nhello\r\n-ERR this server knows PING and ECHO\r\n");
        server.join().expect("the server does not panic")?;
        Ok(())
    }
}
