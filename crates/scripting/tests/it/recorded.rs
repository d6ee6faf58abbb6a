//! What Redis replies to many scripts, recorded from Redis 8.2, whose Lua is that of 7.2 but for
//! what the file says. To record the replies again:
//!
//! ```text
//! INDELIBLE_RECORD_SCRIPTS=/path/to/a/redis.sock cargo test -p indelible-scripting recorded
//! ```

use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Read, Write as _};
use std::os::unix::net::UnixStream;

use resp::Protocol;

use crate::host::Session;

/// A script with what it is given and what is replied.
#[derive(Debug, Default)]
struct Case {
    /// Lines before the script, which begin with `#`.
    comments: String,
    script: String,
    keys: Vec<String>,
    arguments: Vec<String>,
    is_resp3: bool,
    /// Why the reply is not what Redis says.
    differs: Option<String>,
    reply: String,
}

fn path() -> String {
    format!("{}/tests/it/recorded.txt", env!("CARGO_MANIFEST_DIR"))
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next().expect("something is escaped") {
            b'n' => bytes.push(b'\n'),
            b'r' => bytes.push(b'\r'),
            b't' => bytes.push(b'\t'),
            b'x' => {
                let digits = [rest.next().expect("a digit"), rest.next().expect("a digit")];
                let digits = std::str::from_utf8(&digits).expect("ASCII");
                bytes.push(u8::from_str_radix(digits, 16).expect("hexadecimal"));
            }
            other => bytes.push(other),
        }
    }
    bytes
}

fn read_cases() -> Vec<Case> {
    let text = std::fs::read_to_string(path()).expect("the file is there");
    let mut cases = vec![Case::default()];
    for line in text.lines() {
        let case = cases.last_mut().expect("there is one");
        if line.is_empty() {
            if !case.script.is_empty() {
                cases.push(Case::default());
            }
            continue;
        }
        if line.starts_with('#') {
            case.comments.push_str(line);
            case.comments.push('\n');
            continue;
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let words = || rest.split(' ').map(str::to_owned).collect();
        match word {
            "script" => case.script = rest.to_owned(),
            "keys" => case.keys = words(),
            "args" => case.arguments = words(),
            "resp3" => case.is_resp3 = true,
            "differs" => case.differs = Some(rest.to_owned()),
            "reply" => case.reply = rest.to_owned(),
            other => panic!("{other}: what is this?"),
        }
    }
    cases.retain(|case| !case.script.is_empty());
    cases
}

fn bytes_of(words: &[String]) -> Vec<Vec<u8>> {
    words.iter().map(|word| unescape(word)).collect()
}

fn reply_here(case: &Case) -> String {
    let mut session = Session::new();
    session.protocol = if case.is_resp3 { Protocol::Resp3 } else { Protocol::Resp2 };
    let (keys, arguments) = (bytes_of(&case.keys), bytes_of(&case.arguments));
    let keys: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
    let arguments: Vec<&[u8]> = arguments.iter().map(Vec::as_slice).collect();
    let (reply, _) = session.run(&unescape(&case.script), &keys, &arguments);
    reply.escape_ascii().to_string()
}

/// Reads one reply as it comes.
fn read_reply(from: &mut BufReader<UnixStream>, reply: &mut Vec<u8>) {
    let start = reply.len();
    if from.read_until(b'\n', reply).unwrap_or(0) == 0 {
        return reply.extend_from_slice(b"(no reply)");
    }
    let line = String::from_utf8_lossy(&reply[start..]).trim_end().to_owned();
    let count = || line[1..].parse::<i64>().expect("a number");
    match line.as_bytes()[0] {
        b'$' | b'=' if count() >= 0 => {
            let mut text = vec![0; usize::try_from(count()).expect("a length") + 2];
            from.read_exact(&mut text).expect("the server replies");
            reply.extend_from_slice(&text);
        }
        b'*' | b'~' | b'>' => (0..count()).for_each(|_| read_reply(from, reply)),
        b'%' => (0..2 * count()).for_each(|_| read_reply(from, reply)),
        _ => {}
    }
}

fn record(socket: &str, cases: &mut [Case]) {
    for case in cases.iter_mut().filter(|case| case.differs.is_none()) {
        let mut stream = UnixStream::connect(socket).expect("the server is there");
        let patience = Some(std::time::Duration::from_secs(5));
        stream.set_read_timeout(patience).expect("a socket has one");
        let mut answers = BufReader::new(stream.try_clone().expect("descriptors"));
        let mut ask = |words: &[Vec<u8>]| {
            let mut request = format!("*{}\r\n", words.len()).into_bytes();
            for word in words {
                request.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
                request.extend_from_slice(word);
                request.extend_from_slice(b"\r\n");
            }
            stream.write_all(&request).expect("the server reads");
            let mut reply = Vec::new();
            read_reply(&mut answers, &mut reply);
            reply
        };
        ask(&[b"FLUSHALL".to_vec()]);
        ask(&[b"SCRIPT".to_vec(), b"FLUSH".to_vec()]);
        ask(&[b"HELLO".to_vec(), if case.is_resp3 { b"3".to_vec() } else { b"2".to_vec() }]);
        let mut words = vec![b"EVAL".to_vec(), unescape(&case.script)];
        words.push(case.keys.len().to_string().into_bytes());
        words.extend(bytes_of(&case.keys));
        words.extend(bytes_of(&case.arguments));
        case.reply = ask(&words).escape_ascii().to_string();
    }
}

fn write_cases(cases: &[Case]) {
    let mut text = String::new();
    for case in cases {
        let _ = writeln!(text, "{}script {}", case.comments, case.script);
        if !case.keys.is_empty() {
            let _ = writeln!(text, "keys {}", case.keys.join(" "));
        }
        if !case.arguments.is_empty() {
            let _ = writeln!(text, "args {}", case.arguments.join(" "));
        }
        if case.is_resp3 {
            text.push_str("resp3\n");
        }
        if let Some(reason) = &case.differs {
            let _ = writeln!(text, "differs {reason}");
        }
        let _ = write!(text, "reply {}\n\n", case.reply);
    }
    std::fs::write(path(), text.trim_end().to_owned() + "\n").expect("the file can be written");
}

#[test]
fn scripts_reply_as_recorded() {
    let mut cases = read_cases();
    if let Ok(socket) = std::env::var("INDELIBLE_RECORD_SCRIPTS") {
        record(&socket, &mut cases);
        write_cases(&cases);
    }
    assert!(cases.len() >= 150, "{} cases", cases.len());
    let mut wrong = String::new();
    for case in &cases {
        let reply = reply_here(case);
        if reply != case.reply {
            let (script, recorded) = (&case.script, &case.reply);
            let _ = writeln!(wrong, "{script}\n  here     {reply}\n  recorded {recorded}");
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}
