//! The load of `bench/while-writing`: clients that move balances between accounts, in transactions, as fast as the
//! server answers.
//!
//! ```text
//!   transfers PORT fill ACCOUNTS            each account has 1000
//!   transfers PORT run ACCOUNTS CONNECTIONS PIPELINE SECONDS SEED
//! ```
//!
//! One thread: it has a batch of transactions under way on every connection, and sends the next one
//! when the last reply is there. It prints how many transactions were carried out.

use std::fmt::Write as _;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// What each account has at first.
const BALANCE: u32 = 1000;

/// Lines of the replies to one transaction: OK, twice QUEUED, and an array of two numbers.
const LINES: usize = 6;

/// What is sent at once while accounts are filled.
const FILL_COMMANDS: usize = 500;

struct Client {
    stream: TcpStream,
    replies: Vec<u8>,
}

impl Client {
    fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, replies: vec![0; 64 << 10] })
    }

    /// Reads so many lines, none of which may be an error.
    fn take(&mut self, lines: usize) -> io::Result<()> {
        let (mut seen, mut begins_line) = (0, true);
        while seen < lines {
            let bytes = self.stream.read(&mut self.replies)?;
            if bytes == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let replies = &self.replies[..bytes];
            for (index, byte) in replies.iter().enumerate() {
                if begins_line && *byte == b'-' {
                    let line = replies[index..].split(|byte| *byte == b'\r').next();
                    return Err(io::Error::other(
                        line.unwrap_or_default().escape_ascii().to_string(),
                    ));
                }
                begins_line = *byte == b'\n';
                seen += usize::from(begins_line);
            }
        }
        Ok(())
    }
}

fn command(out: &mut String, words: &[&str]) {
    write!(out, "*{}\r\n", words.len()).expect("strings take everything");
    for word in words {
        write!(out, "${}\r\n{word}\r\n", word.len()).expect("strings take everything");
    }
}

fn account(number: u32) -> String {
    format!("account:{number:06}")
}

fn fill(port: u16, accounts: u32) -> io::Result<()> {
    let mut client = Client::connect(port)?;
    let numbers: Vec<u32> = (0..accounts).collect();
    for numbers in numbers.chunks(FILL_COMMANDS) {
        let mut out = String::new();
        for number in numbers {
            command(&mut out, &["SET", &account(*number), &BALANCE.to_string()]);
        }
        client.stream.write_all(out.as_bytes())?;
        client.take(numbers.len())?;
    }
    Ok(())
}

fn batch(out: &mut String, random: &mut fastrand::Rng, accounts: u32, pipeline: usize) {
    out.clear();
    for _ in 0..pipeline {
        let (from, to) = (account(random.u32(..accounts)), account(random.u32(..accounts)));
        let amount = random.u32(1..100).to_string();
        command(out, &["MULTI"]);
        command(out, &["DECRBY", &from, &amount]);
        command(out, &["INCRBY", &to, &amount]);
        command(out, &["EXEC"]);
    }
}

fn run(
    port: u16,
    accounts: u32,
    connections: usize,
    pipeline: usize,
    time: Duration,
    seed: u64,
) -> io::Result<()> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut clients = Vec::new();
    let mut out = String::new();
    for _ in 0..connections {
        let mut client = Client::connect(port)?;
        batch(&mut out, &mut random, accounts, pipeline);
        client.stream.write_all(out.as_bytes())?;
        clients.push(client);
    }
    let (begun, mut transactions) = (Instant::now(), 0);
    while begun.elapsed() < time {
        for client in &mut clients {
            client.take(LINES * pipeline)?;
            transactions += pipeline;
            batch(&mut out, &mut random, accounts, pipeline);
            client.stream.write_all(out.as_bytes())?;
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    // Nothing is left half done.
    clients.iter_mut().try_for_each(|client| client.take(LINES * pipeline))?;
    println!("{{\"transactions\": {transactions}, \"seconds\": {seconds:.3}}}");
    Ok(())
}

fn main() -> io::Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| {
        let word = words.get(index).map(|word| word.parse::<u32>());
        word.and_then(Result::ok)
            .ok_or_else(|| io::Error::other("see the file's top for what it wants"))
    };
    let port = u16::try_from(number(0)?).map_err(io::Error::other)?;
    match words.get(1).map(String::as_str) {
        Some("fill") => fill(port, number(2)?),
        _ => run(
            port,
            number(2)?,
            number(3)? as usize,
            number(4)? as usize,
            Duration::from_secs(number(5)?.into()),
            number(6)?.into(),
        ),
    }
}
