//! Flips, cuts and lies.

use rdb::{Error, Event, Limits, Reader};

use crate::dump::{LIMITS, crc64, lines, sealed, string, unsealed};

/// A small dump with something of everything.
fn body() -> Vec<u8> {
    [
        &b"\xfa\x09redis-ver\x067.0.15\xf5\x05#!lua\xfe\0\xfb\x05\x01"[..],
        b"\xfc\0\0\0\0\x01\0\0\0\0\x01s\x05value",
        b"\0\x01n\xc1\xe8\x03",
        b"\0\x01z\xc3\x04\x08\0a\xa0\0",
        b"\x01\x01l\x02\x01a\x01b",
        b"\x05\x01y\x01\x01a\0\0\0\0\0\0\xf8\x3f",
        b"\x04\x01h\x01\x01f\x01v",
        b"\x12\x01q\x01\x02\x0c\x0c\0\0\0\x02\0\x81a\x02\x05\x01\xff\xfe\x01",
        b"\x10\x01p\x0c\x0c\0\0\0\x02\0\x81a\x02\x05\x01\xff",
        b"\x0b\x01i\x0a\x02\0\0\0\x01\0\0\0\x01\0",
        b"\x0f\x01x\0\0\0\0\0",
        b"\x07\x01m\x01\x02\x05\0",
    ]
    .concat()
}

#[test]
fn every_flip_is_noticed() {
    let dump = sealed("REDIS0010", &body());
    assert_eq!(lines(&dump[..]).unwrap().pop().as_deref(), Some("end, right"));
    for at in 0..dump.len() {
        for bit in 0..8 {
            let mut damaged = dump.clone();
            damaged[at] ^= 1 << bit;
            let said = lines(&damaged[..]);
            assert!(said.is_err(), "bit {bit} of byte {at}: {said:?}");
        }
    }
}

#[test]
fn every_cut_is_noticed() {
    for dump in [sealed("REDIS0010", &body()), unsealed("REDIS0010", &body())] {
        for bytes in 0..dump.len() {
            let error = lines(&dump[..bytes]).unwrap_err();
            match error {
                Error::Corrupt { offset, .. } => {
                    assert!(offset <= bytes as u64, "{bytes}: {error}")
                }
                other => panic!("{bytes}: {other}"),
            }
        }
    }
}

#[test]
fn damage_that_no_sum_shows_is_survived() {
    let dump = unsealed("REDIS0010", &body());
    for at in 9..dump.len() {
        for byte in 0..=u8::MAX {
            let mut damaged = dump.clone();
            damaged[at] = byte;
            let _ = lines(&damaged[..]);
        }
    }
}

#[test]
fn a_wrong_sum_is_no_absent_one() {
    let mut dump = sealed("REDIS0010", &body());
    let sum_at = dump.len() - 8;
    dump[sum_at..].copy_from_slice(&1_u64.to_le_bytes());
    let error = lines(&dump[..]).unwrap_err();
    assert!(error.to_string().contains("checksum"), "{error}");
    assert_ne!(crc64(&dump[..sum_at]), 0);
}

/// Lengths and counts that are larger than what is there, wherever one can stand.
#[test]
fn lengths_that_lie_are_refused() {
    let many = b"\x81\xff\xff\xff\xff\xff\xff\xff\xff";
    let some = b"\x80\x00\x0f\xff\xff";
    for lie in [&many[..], some] {
        for (what, body) in [
            ("a key", [b"\0", lie].concat()),
            ("a string", [b"\0\x01k", lie].concat()),
            ("a compressed string", [b"\0\x01k\xc3", lie, b"\x08\0a\xa0\0"].concat()),
            ("an unpacked string", [b"\0\x01k\xc3\x04", lie, b"\0a\xa0\0"].concat()),
            ("a list", [b"\x01\x01k", lie, b"\x01a"].concat()),
            ("a set", [b"\x02\x01k", lie, b"\x01a"].concat()),
            ("scores", [b"\x05\x01k", lie, b"\x01a\0\0\0\0\0\0\0\0"].concat()),
            ("fields", [b"\x04\x01k", lie, b"\x01a\x01b"].concat()),
            ("nodes", [b"\x12\x01k", lie, b"\x01\x01a"].concat()),
            ("a blob", [b"\x10\x01k", lie].concat()),
            ("an AUX field", [b"\xfa", lie].concat()),
            ("a library", [b"\xf5", lie].concat()),
            ("a stream", [b"\x0f\x01k", lie].concat()),
            (
                "pending ids",
                [b"\x0f\x01k\0\0\0\0\x01\x01g\0\0\0\x01\x01c\0\0\0\0\0\0\0\0", lie].concat(),
            ),
            ("a module's string", [b"\x07\x01k\0\x05", lie].concat()),
            ("an array", [b"\x1c\x01k", lie, b"\0"].concat()),
            ("names", [b"\xf2\0", lie, b"\x01a"].concat()),
        ] {
            let dump = unsealed("REDIS0015", &body);
            let said = lines(&dump[..]);
            assert!(said.is_err(), "{what}: {said:?}");
        }
    }
}

#[test]
fn a_string_above_the_limit_is_named() {
    let dump = sealed("REDIS0010", &[&b"\0\x01k"[..], &string([b'v'; 1000])].concat());
    let read = |string_bytes_max| {
        let mut reader = Reader::new(&dump[..], Limits { string_bytes_max })?;
        while !matches!(reader.next()?, Event::End { .. }) {}
        Ok(())
    };
    assert!(matches!(read(1000), Ok(())));
    let error: Error = read(999).unwrap_err();
    assert!(matches!(error, Error::TooLong { bytes: 1000, bytes_max: 999, .. }), "{error}");
    assert!(error.to_string().contains("1000 bytes"), "{error}");
}

#[test]
fn templates_take_no_more_than_a_string_may() {
    let template = |number: u8| [&[0xf2, number, 1][..], &string([b'n'; 4000])].concat();
    let body: Vec<u8> = (0..63).flat_map(template).collect();
    let dump = unsealed("REDIS0015", &body);
    assert!(lines(&dump[..]).is_ok());
    let limits = Limits { string_bytes_max: LIMITS.string_bytes_max / 8 };
    let mut reader = Reader::new(&dump[..], limits).unwrap();
    assert!(matches!(reader.next(), Err(Error::TooLong { .. })));
}
