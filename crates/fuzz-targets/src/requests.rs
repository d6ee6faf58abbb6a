//! RESP requests: any pieces of a stream are the same requests as all of it at once.
//!
//! The first byte of the input chooses the pieces, the second what the client may send; the rest is
//! the stream.

use resp::{Limits, Parsed, Parser, ProtocolError};

/// What a stream says: its requests, why it ended, and how many bytes were left.
#[derive(Debug, PartialEq)]
struct Said {
    requests: Vec<Vec<Vec<u8>>>,
    error: Option<ProtocolError>,
    left: usize,
}

pub(crate) fn run(input: &[u8]) {
    let Some((&[pieces, limits], stream)) = input.split_first_chunk() else { return };
    let limits = Limits {
        bulk_bytes_max: if limits & 1 == 0 { Limits::default().bulk_bytes_max } else { 40 },
        authenticated: limits & 2 == 0,
    };
    let whole = read(stream, &limits, |_| stream.len());
    let mut state = u32::from(pieces);
    let random = read(stream, &limits, |_| {
        state = state.wrapping_mul(1_103_515_245).wrapping_add(12_345);
        1 + (state >> 16) as usize % (1 + usize::from(pieces))
    });
    assert_eq!(whole, random, "in pieces of up to {pieces} bytes");
    // As much as the parser says is missing, which must not be too much.
    let asked = read(stream, &limits, |missing_bytes| missing_bytes);
    assert_eq!(whole, asked, "in pieces as the parser asks for them");
}

/// Reads a stream in pieces; `piece` is told how many bytes the parser misses.
fn read(stream: &[u8], limits: &Limits, mut piece: impl FnMut(usize) -> usize) -> Said {
    let mut said = Said { requests: Vec::new(), error: None, left: 0 };
    let mut parser = Parser::new();
    let (mut start, mut end) = (0, piece(1).min(stream.len()));
    let mut needed = end;
    loop {
        let input = &stream[start..end];
        match parser.parse(input, limits) {
            Ok(Parsed::Request { len }) => {
                assert!(end >= needed, "the parser said that more was missing");
                assert!((1..=input.len()).contains(&len), "a request lies within its bytes");
                assert_eq!(parser.args_len(), parser.args(input).len());
                said.requests.push(parser.args(input).map(<[u8]>::to_vec).collect());
                assert!(!parser.is_within_request());
                start += len;
                needed = start;
            }
            Ok(Parsed::Incomplete { missing_bytes }) => {
                assert!(missing_bytes > 0);
                if end == stream.len() {
                    said.left = end - start;
                    return said;
                }
                needed = end + missing_bytes;
                end = (end + piece(missing_bytes)).min(stream.len());
            }
            Err(error) => {
                said.error = Some(error);
                return said;
            }
        }
    }
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let streams: [&[u8]; 9] = [
        b"*2\r\n$3\r\nGET\r\n$3\r\nfoo\r\n*1\r\n$4\r\nPING\r\n",
        b"*3\r\n$3\r\nSET\r\n$0\r\n\r\n$12\r\n12345678\r\n12\r\nPING\r\n",
        b"set \"a b\\x41\\n\" 'it\\'s'\r\n\r\nget foo\n",
        b"*0\r\n*-1\r\n\n*1\r\n$1\r\nx\r\n",
        b"*1\r\n$-1\r\n",
        b"*2147483647\r\n$536870912\r\nabc",
        b"*11\r\n$16385\r\n",
        b"get \"a\"b\r\n",
        b"*1\r\n$50\r\n01234567890123456789012345678901234567890123456789\r\n",
    ];
    let with = |stream: &&[u8]| [&[5, 0], *stream].concat();
    let mut seeds: Vec<Vec<u8>> = streams.iter().map(with).collect();
    // Near the longest line: a request in one piece must be one in many.
    seeds.push([&[200, 0], &[b'a'; 65_540][..], b"\r\n"].concat());
    seeds.push([b"\xc8\0*", &[b'1'; 65_540][..], b"\r\n"].concat());
    seeds
}
