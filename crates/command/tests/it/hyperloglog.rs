//! HyperLogLog: bytes, counts and errors as redis-server 7.0.15 has them.

use crate::session::Session;

/// FNV-1a of a string value.
fn digest(session: &mut Session, key: &[u8]) -> u64 {
    let reply = session.run_raw(&[b"GET", key]);
    let start = reply.iter().position(|byte| *byte == b'\n').expect("a bulk string") + 1;
    let bytes = &reply[start..reply.len() - 2];
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |state: u64, byte| {
        (state ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

fn add(session: &mut Session, key: &str, prefix: &str, numbers: std::ops::Range<usize>) {
    for number in numbers {
        session.run(&format!("PFADD {key} {prefix}{number}"));
    }
}

#[test]
fn bytes_and_counts_are_those_of_redis() {
    let mut session = Session::new();
    let mut added = 0;
    // How many elements, the bytes before and after a PFCOUNT, and the count.
    for (elements, before, count, after) in [
        (10, 0x4afc_b65d_27f7_d346, 10, 0xd06c_25fb_eaa2_3420),
        (100, 0xdc19_0eeb_2be4_c6cc, 100, 0x40de_c5e3_b151_3cfa),
        (1000, 0x8f60_f2e6_4623_2d18, 1008, 0x4ded_8ea0_046b_668d),
        (2000, 0xa0e7_8bcc_7a3f_3407, 2000, 0xdd4d_26f1_86b5_7d33),
        (5000, 0x3595_2698_3ee7_83b3, 4968, 0x9219_c5a2_921d_b657),
        (50_000, 0x0f37_853a_495f_1a01, 49_978, 0xb4cd_ee46_53d5_efff),
    ] {
        add(&mut session, "h", "e", added..elements);
        added = elements;
        assert_eq!(digest(&mut session, b"h"), before, "{elements} elements");
        assert_eq!(session.run("PFCOUNT h"), format!(":{count}"));
        assert_eq!(digest(&mut session, b"h"), after, "{elements} elements, counted");
    }
    add(&mut session, "a", "a", 0..300);
    add(&mut session, "b", "b", 0..300);
    assert_eq!(session.run("PFMERGE m a b"), "+OK");
    assert_eq!(digest(&mut session, b"m"), 0x4eb3_d941_9ba0_c43f);
    assert_eq!(session.run("PFCOUNT a b"), ":603");
}

#[test]
fn what_is_no_hyperloglog_is_refused_and_left_alone() {
    const INVALID: &str = "-WRONGTYPE Key is not a valid HyperLogLog string value.";
    const CORRUPTED: &str = "-INVALIDOBJ Corrupted HLL object detected";
    let mut session = Session::new();
    session.run("SET s hello");
    for call in ["PFADD s a", "PFCOUNT s", "PFCOUNT s t", "PFMERGE t s", "PFDEBUG GETREG s"] {
        assert_eq!(session.run(call), INVALID, "{call}");
    }
    let header = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80";
    // Too few registers, too many, a run that is cut off.
    for runs in [&b"\x40\x10"[..], b"\x7f\xff\x80", b"\x7f", b""] {
        let value = [&header[..], runs].concat();
        session.run_arguments(&[b"SET", b"c", &value]);
        let before = digest(&mut session, b"c");
        for call in ["PFCOUNT c", "PFCOUNT c c", "PFMERGE t c", "PFDEBUG GETREG c"] {
            assert_eq!(session.run(call), CORRUPTED, "{call} of {runs:?}");
        }
        session.run("PFADD c x y z");
        session.run("PFDEBUG DECODE c");
        session.run_arguments(&[b"SET", b"c", &value]);
        assert_eq!(digest(&mut session, b"c"), before);
    }
}

#[test]
fn it_tells_how_it_is_kept() {
    let mut session = Session::new();
    assert_eq!(session.run("PFADD d"), ":1");
    assert_eq!(session.run("PFADD d"), ":0");
    session.run("PFADD d x y");
    assert_eq!(session.run("PFDEBUG ENCODING d"), "+sparse");
    assert_eq!(session.run("PFDEBUG DECODE d"), "$30 Z:14932 v:3,1 Z:1441 v:2,1 z:9");
    assert_eq!(session.run("PFDEBUG TODENSE d"), ":1");
    assert_eq!(session.run("PFDEBUG TODENSE d"), ":0");
    assert_eq!(session.run("PFDEBUG DECODE d"), "-ERR HLL encoding is not sparse");
    assert_eq!(session.run("PFDEBUG x d"), "-ERR Unknown PFDEBUG subcommand 'x'");
    assert_eq!(session.run("PFDEBUG x no"), "-ERR The specified key does not exist");
    assert_eq!(session.run("PFSELFTEST"), "+OK");
}

#[test]
fn the_sparse_form_is_as_long_as_the_setting_says() {
    let mut session = Session::new();
    let encoding = |session: &mut Session, max, elements| {
        session.keyspace.settings_mut().hll_sparse_max_bytes = max;
        session.run("DEL h");
        add(session, "h", "e", 0..elements);
        session.run("PFDEBUG ENCODING h")
    };
    assert_eq!(encoding(&mut session, 0, 1), "+dense");
    assert_eq!(encoding(&mut session, 30, 2), "+sparse");
    assert_eq!(encoding(&mut session, 30, 50), "+dense");
    assert_eq!(encoding(&mut session, 3000, 5000), "+dense");
    assert_eq!(encoding(&mut session, 16_000, 5000), "+sparse");
    assert_eq!(encoding(&mut session, usize::MAX, 5000), "+sparse");
}

#[test]
fn a_count_is_stored_unless_nothing_may_be() {
    let mut session = Session::new();
    session.run("PFADD h a b c");
    let before = digest(&mut session, b"h");
    session.may_store = false;
    assert_eq!(session.run("PFCOUNT h"), ":3");
    assert_eq!(digest(&mut session, b"h"), before, "nothing was written");
    session.may_store = true;
    assert_eq!(session.run("PFCOUNT h"), ":3");
    assert_ne!(digest(&mut session, b"h"), before, "the count was");
    // What is there is taken, whatever may be written.
    session.may_store = false;
    assert_eq!(session.run("PFCOUNT h"), ":3");
}

#[test]
fn bytes_that_are_more_than_any_sparse_form_has_are_not_copied() {
    const CORRUPTED: &str = "-INVALIDOBJ Corrupted HLL object detected";
    let mut session = Session::new();
    let header = b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80";
    // A run of one register in two bytes each time is the longest that makes sense.
    let longest = [&header[..], &[0x40, 0].repeat(16_384)].concat();
    session.run_arguments(&[b"SET", b"h", &longest]);
    assert_eq!(session.run("PFCOUNT h"), ":0");
    assert_eq!(session.run("PFADD h a"), ":1");
    let longer = [&longest[..], b"\0"].concat();
    session.run_arguments(&[b"SET", b"h", &longer]);
    for call in ["PFCOUNT h", "PFCOUNT h h", "PFADD h a", "PFMERGE m h", "PFDEBUG DECODE h"] {
        assert_eq!(session.run(call), CORRUPTED, "{call}");
    }
}

#[test]
fn what_adds_nothing_is_a_use_of_the_key() {
    let mut session = Session::new();
    session.run("PFADD h a b c");
    session.run("PFADD dense a");
    session.run("PFDEBUG TODENSE dense");
    session.run("SETBIT b 1 1");
    for (call, key) in [
        ("PFADD h a", "h"),
        ("PFADD dense a", "dense"),
        ("PFADD dense d", "dense"),
        ("PFCOUNT dense", "dense"),
        ("SETBIT b 1 1", "b"),
        ("SETBIT b 2 1", "b"),
        ("BITFIELD b SET u4 0 6", "b"),
        ("APPEND b more", "b"),
        ("SETRANGE b 1 x", "b"),
    ] {
        session.now_ms += 5000;
        session.run(call);
        assert_eq!(session.run(&format!("OBJECT IDLETIME {key}")), ":0", "{call}");
    }
}

#[test]
fn a_count_that_no_number_has_room_for_is_told_as_redis_tells_it() {
    let mut session = Session::new();
    let header = b"HYLL\0\0\0\0\0\0\0\0\0\0\0\x80";
    // Registers of 63 each; of 50 each.
    for registers in [[0xff; 3].repeat(4096), [0xb2, 0x2c, 0xcb].repeat(4096)] {
        let value = [&header[..], &registers].concat();
        session.run_arguments(&[b"SET", b"h", &value]);
        session.keyspace.take_effects();
        for _ in 0..2 {
            assert_eq!(session.run("PFCOUNT h"), format!(":{}", i64::MIN));
        }
        assert_eq!(session.run_raw(&[b"GET", b"h"])[8..][..value.len()], value, "no count is kept");
    }
}
