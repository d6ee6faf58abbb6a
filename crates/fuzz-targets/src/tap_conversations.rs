//! The tap's protocols: whatever both sides of a connection say and whatever is missing of it, no request is
//! answered that was not told, and none twice.
//!
//! The input is a protocol, then pieces: a side, a length and so many bytes, or a gap of so many.

use tap::protocol::Side;
use tap::{Class, Listener, Outcome, Protocol, Time};

#[derive(Default)]
struct Tally {
    is_answered: Vec<bool>,
}

impl Listener for Tally {
    fn request(&mut self, _: Class, payload: &[u8], _: u64, _: Time) {
        assert!(!payload.is_empty(), "a request has bytes");
        self.is_answered.push(false);
    }

    fn response(&mut self, number: u64, _: Outcome, _: Time) {
        let number = usize::try_from(number).expect("there are few");
        assert!(!self.is_answered[number], "a request is answered once");
        self.is_answered[number] = true;
    }

    fn unintelligible(&mut self, _: Side, _: &str, _: Time) {}

    fn encrypted(&mut self, _: Time) {}
}

pub(crate) fn run(input: &[u8]) {
    let Some((kind, mut rest)) = input.split_first() else { return };
    let protocol = [Protocol::Resp, Protocol::Mysql, Protocol::Raw][usize::from(kind % 3)];
    let mut conversation = protocol.conversation();
    let mut tally = Tally::default();
    while let [what, len, behind @ ..] = rest {
        let side = if what & 1 == 0 { Side::Client } else { Side::Server };
        if what & 6 == 6 {
            conversation.gap(side, u64::from(*len), Time(0), &mut tally);
            rest = behind;
        } else {
            let (bytes, behind) = behind.split_at(usize::from(*len).min(behind.len()));
            conversation.bytes(side, bytes, Time(0), &mut tally);
            rest = behind;
        }
    }
    conversation.connection_requests();
}

fn pieces(protocol: u8, said: &[(u8, &[u8])]) -> Vec<u8> {
    let mut input = vec![protocol];
    for (side, bytes) in said {
        for piece in bytes.chunks(255) {
            input.extend_from_slice(&[*side, u8::try_from(piece.len()).expect("at most 255")]);
            input.extend_from_slice(piece);
        }
    }
    input
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let greeting =
        b"\x4d\0\0\0\x0a5.5.5-10.11.6-MariaDB\0\x05\0\0\0abcdefgh\0\xff\xff\x2d\x02\0\xff\xff\x15\
        \0\0\0\0\0\0\0\0\0\0ijklmnopqrst\0mysql_native";
    let login =
        b"\x2b\0\0\x01\x01\x82\x08\0\0\0\0\x01\x2d\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\
        someone\0\0\0\0";
    let ok = b"\x07\0\0\x02\0\0\0\x02\0\0\0";
    let rows = b"\x01\0\0\x01\x01\x03\0\0\x02def\x05\0\0\x03\xfe\0\0\x02\0\x02\0\0\x04\x01a\x05\0\0\x05\xfe\0\0\x02\0";
    vec![
        pieces(0, &[
            (0, b"*2\r\n$6\r\nselect\r\n$1\r\n3\r\nmulti\r\nset a b\r\nexec\r\nsubscribe a\r\n"),
            (1, b"+OK\r\n+OK\r\n+QUEUED\r\n*1\r\n+OK\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n"),
            (0, b"client reply skip\r\nmonitor\r\n"),
            (1, b">2\r\n+invalidate\r\n_\r\n%1\r\n+a\r\n,1\r\n"),
        ]),
        pieces(1, &[(1, greeting), (0, login), (1, ok), (0, b"\x09\0\0\0\x03SELECT 1"), (1, rows)]),
        pieces(2, &[(0, b"anything"), (1, b"else")]),
    ]
}
