//! The payload of FUNCTION DUMP and FUNCTION RESTORE: libraries of functions as they are in a dump.
//!
//! ```text
//!   (opcode 245 │ source)* │ version │ CRC64
//! ```
//!
//! The bytes are those that Redis 7.0 returns for the same libraries in the same order.

use crate::decode::{BadPayload, unseal};
use crate::form::opcode;
use crate::input::{Input, length};
use crate::lzf::compress_like_redis;
use crate::strings::{put_length, put_string, seal};
use crate::{Error, Limits, PACKED_BYTES_MIN, SAVED_BYTES_MIN};

/// Why a payload has no libraries. The texts are Redis'.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadFunctions {
    /// The version is not one that is read, the checksum is wrong, or it is not a payload.
    #[error(transparent)]
    Footer(BadPayload),
    /// There is something else in it.
    #[error("given type is not a function")]
    OtherType,
    /// A source is cut off, or damaged.
    #[error("Failed loading library payload")]
    Content,
    /// A source has more bytes than it may have.
    #[error("Library code of {0} bytes is too long: it may have {1}; keep data in keys")]
    TooLong(u64, u64),
    /// There are more libraries than there may be.
    #[error("Too many libraries: there may be {0}; put several functions into one")]
    TooMany(usize),
    /// All of them have more bytes than they may have.
    #[error("Libraries would have more than {0} bytes of code together: restore fewer of them")]
    TooLarge(u64),
}

/// What is read of a payload at most.
#[derive(Clone, Copy, Debug)]
pub struct FunctionLimits {
    /// The longest source, in bytes.
    pub source_bytes_max: u64,
    /// The number of libraries.
    pub libraries_max: usize,
    /// All sources together, in bytes.
    pub all_bytes_max: u64,
}

/// Returns the payload of libraries with these sources.
pub fn encode_functions<'a>(
    sources: impl IntoIterator<Item = &'a [u8]>,
    compress: bool,
) -> Vec<u8> {
    let mut out = Vec::new();
    for source in sources {
        out.push(opcode::FUNCTION);
        let is_long = compress && source.len() >= PACKED_BYTES_MIN;
        let packed =
            is_long.then(|| compress_like_redis(source, source.len() - SAVED_BYTES_MIN)).flatten();
        match packed {
            Some(packed) => {
                out.push(length::LZF);
                put_length(&mut out, packed.len() as u64);
                put_length(&mut out, source.len() as u64);
                out.extend_from_slice(&packed);
            }
            None => put_string(&mut out, source),
        }
    }
    seal(out)
}

/// Returns the sources of the libraries in a payload.
///
/// # Errors
/// When it is damaged, has something else in it, or more than the limits allow.
pub fn decode_functions(
    payload: &[u8],
    limits: FunctionLimits,
) -> Result<Vec<Vec<u8>>, BadFunctions> {
    let (body, _) = unseal(payload).map_err(BadFunctions::Footer)?;
    let mut input = Input::of_payload(body, Limits { string_bytes_max: limits.source_bytes_max });
    let (mut sources, mut all_bytes) = (Vec::new(), 0);
    let cut = |error| match error {
        Error::TooLong { bytes, bytes_max, .. } => BadFunctions::TooLong(bytes, bytes_max),
        _ => BadFunctions::Content,
    };
    while !input.is_at_end().map_err(cut)? {
        if input.byte().map_err(cut)? != opcode::FUNCTION {
            return Err(BadFunctions::OtherType);
        }
        if sources.len() == limits.libraries_max {
            return Err(BadFunctions::TooMany(limits.libraries_max));
        }
        let source = input.string().map_err(cut)?;
        let source = input.bytes(source);
        all_bytes += source.len() as u64;
        if all_bytes > limits.all_bytes_max {
            return Err(BadFunctions::TooLarge(limits.all_bytes_max));
        }
        sources.push(source.to_vec());
    }
    Ok(sources)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: FunctionLimits =
        FunctionLimits { source_bytes_max: 1 << 20, libraries_max: 3, all_bytes_max: 2 << 20 };

    fn bytes(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    #[test]
    fn what_is_encoded_is_decoded_and_damage_is_noticed() {
        let long = "local a = 1 ".repeat(40_000);
        let sources = [&b"#!lua name=a\nredis.register_function('f', f)"[..], long.as_bytes(), b""];
        for compress in [false, true] {
            let mut payload = encode_functions(sources, compress);
            assert_eq!(decode_functions(&payload, LIMITS).unwrap(), sources);
            assert_eq!(payload.len() < 100_000, compress);
            payload[1] ^= 1;
            let bad = Err(BadFunctions::Footer(BadPayload::Footer));
            assert_eq!(decode_functions(&payload, LIMITS), bad);
        }
        assert_eq!(decode_functions(&encode_functions([], true), LIMITS), Ok(Vec::new()));
        assert_eq!(
            decode_functions(b"short", LIMITS),
            Err(BadFunctions::Footer(BadPayload::Footer))
        );
        assert_eq!(
            decode_functions(&seal(b"\0\x01a".to_vec()), LIMITS),
            Err(BadFunctions::OtherType)
        );
        assert_eq!(
            decode_functions(&seal(b"\xf5\x09a".to_vec()), LIMITS),
            Err(BadFunctions::Content)
        );
    }

    #[test]
    fn no_more_is_unpacked_than_the_limits_allow() {
        let long = vec![b'a'; 1 << 20];
        let with_one_more = [&long[..], b"b"].concat();
        for (sources, expected) in [
            (&[&long[..], &long][..], Ok(2)),
            (&[&with_one_more], Err(BadFunctions::TooLong((1 << 20) + 1, 1 << 20))),
            (&[b"a", b"b", b"c", b"d"], Err(BadFunctions::TooMany(3))),
            (&[&long, &long, b"c"], Err(BadFunctions::TooLarge(2 << 20))),
        ] {
            for compress in [false, true] {
                let payload = encode_functions(sources.iter().copied(), compress);
                let decoded = decode_functions(&payload, LIMITS);
                assert_eq!(decoded.map(|sources| sources.len()), expected);
            }
        }
    }

    /// Payloads of a Redis 7.0 server, with `rdbcompression yes`.
    #[test]
    fn the_bytes_are_those_of_redis() {
        let repeats = "#!lua name=a\nredis.register_function('f', function() return \
                       'abcabcabcabcabcabcabcabcabcabcabcabcabcabcabc' end)\n\
                       redis.register_function('g', function() return 'abcabc' end)";
        for (source, hex) in [
            (
                "#!lua name=a\nredis.register_function('f', function() return 1 end)",
                "f5404223216c7561206e616d653d610a72656469732e72656769737465725f66756e6374696f6e\
                 282766272c2066756e6374696f6e28292072657475726e203120656e64290a00e3d1b98319f4e384",
            ),
            (
                repeats,
                "f5c3405440ad1f23216c7561206e616d653d610a72656469732e72656769737465725f66756e63\
                 0974696f6e282766272c20e0000d0c292072657475726e2027616263e02102052720656e6429e0\
                 11630067e01363403c0164290a0016b63270234dc540",
            ),
        ] {
            let payload = bytes(hex);
            assert_eq!(encode_functions([source.as_bytes()], true), payload);
            assert_eq!(decode_functions(&payload, LIMITS).unwrap(), [source.as_bytes()]);
        }
    }
}
