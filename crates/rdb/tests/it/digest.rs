//! Fingerprints: what they depend on, and what not. With those of a Redis server they are compared in `cli`.

use rdb::{DatasetFingerprint, Digest, Event, Fingerprint, Kind, Reader};

use crate::dump::{LIMITS, unsealed};

fn digest(body: &[u8]) -> String {
    let dump = unsealed("REDIS0010", body);
    let mut reader = Reader::new(&dump[..], LIMITS).unwrap();
    let mut digest = Digest::default();
    loop {
        let event = reader.next().unwrap();
        digest.take(&event);
        if matches!(event, Event::End { .. }) {
            return digest.finish().text();
        }
    }
}

#[test]
fn an_empty_dump_has_a_fingerprint_of_zeros() {
    assert_eq!(digest(b""), "0".repeat(40));
    assert_eq!(digest(b"\xfe\x03"), "0".repeat(40));
}

#[test]
fn the_order_of_keys_and_databases_does_not_matter() {
    let (a, b) = (b"\0\x01a\x01v", b"\x02\x01b\x02\x01x\x01y");
    let there = [&b"\xfe\0"[..], a, b, b"\xfe\x07", a].concat();
    let back = [&b"\xfe\x07"[..], a, b"\xfe\0", b"\x02\x01b\x02\x01y\x01x", a].concat();
    assert_eq!(digest(&there), digest(&back));
    let elsewhere = [&b"\xfe\0"[..], a, b, b"\xfe\x08", a].concat();
    assert_ne!(digest(&there), digest(&elsewhere));
    let split = [&b"\xfe\0"[..], a, b"\xfe\x07", a, b"\xfe\0", b].concat();
    assert_eq!(digest(&there), digest(&split));
}

#[test]
fn what_matters_of_a_value() {
    let key = |value: &dyn Fn(&mut Fingerprint)| {
        let mut fingerprint = Fingerprint::of_key(b"k");
        value(&mut fingerprint);
        let mut all = DatasetFingerprint::default();
        all.add(0, &fingerprint);
        all.finish().text()
    };
    let list = |items: &'static [&[u8]]| {
        key(&|fingerprint| {
            fingerprint.kind(Kind::List);
            items.iter().for_each(|item| fingerprint.item(item));
        })
    };
    assert_ne!(list(&[b"a", b"b"]), list(&[b"b", b"a"]));
    assert_eq!(list(&[b"a", b"b"]), digest(b"\x01\x01k\x02\x01a\x01b"));
    let field = |expires| key(&|fingerprint| fingerprint.field(b"f", b"v", expires));
    assert_ne!(field(false), field(true));
}
