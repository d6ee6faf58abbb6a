//! Every form of a value, and everything that is no value, made by hand.

use rdb::{Error, Event, Reader};

use crate::dump::{InPieces, LIMITS, joined, line, lines, sealed, string, unsealed};

/// A value of this form below the key `k`.
fn value(form: u8, value: &[u8]) -> Vec<u8> {
    [&[form][..], b"\x01k", value].concat()
}

/// A listpack of these entries, each without its back length of one byte.
fn listpack(entries: &[&[u8]]) -> Vec<u8> {
    let mut body = Vec::new();
    for entry in entries {
        body.extend_from_slice(entry);
        body.push(u8::try_from(entry.len()).unwrap());
    }
    let total = u32::try_from(body.len() + 7).unwrap();
    let count = u16::try_from(entries.len()).unwrap();
    string([&total.to_le_bytes()[..], &count.to_le_bytes(), &body, &[0xff]].concat())
}

/// A ziplist of these short entries, each without the length of the previous one.
fn ziplist(entries: &[&[u8]]) -> Vec<u8> {
    let (mut body, mut last_at) = (Vec::new(), 0);
    for entry in entries {
        let at = body.len();
        body.push(u8::try_from(at - last_at).unwrap());
        body.extend_from_slice(entry);
        last_at = at;
    }
    let head = [body.len() + 11, last_at + 10];
    let head = head.map(|number| u32::try_from(number).unwrap().to_le_bytes()).concat();
    let count = u16::try_from(entries.len()).unwrap();
    string([&head[..], &count.to_le_bytes(), &body, &[0xff]].concat())
}

#[test]
fn strings_in_every_encoding() {
    for (bytes, text) in [
        (&b"\x03abc"[..], "abc"),
        (b"\x40\x03abc", "abc"),
        (b"\x80\0\0\0\x03abc", "abc"),
        (b"\x81\0\0\0\0\0\0\0\x03abc", "abc"),
        (b"\0", ""),
        (b"\xc0\x85", "-123"),
        (b"\xc1\xe8\x03", "1000"),
        (b"\xc2\x40\x42\x0f\0", "1000000"),
        (b"\xc3\x04\x08\0a\xa0\0", "aaaaaaaa"),
    ] {
        assert_eq!(joined("REDIS0006", &value(0, bytes)), format!("string k, = {text}, ."));
    }
    for bytes in [&b"\xc4\0"[..], b"\x82\0", b"\xc3\x04\x07\0a\xa0\0", b"\xc3\x04\x09\0a\xa0\0"] {
        assert!(joined("REDIS0006", &value(0, bytes)).starts_with("is damaged"));
    }
}

#[test]
fn plain_collections() {
    for (form, bytes, events) in [
        (1, &b"\x02\x01a\xc0\x07"[..], "list k count 2, - a, - 7, ."),
        (2, b"\x02\x01a\x01b", "set k count 2, * a, * b, ."),
        (3, b"\x03\x01a\x031.5\x01b\xfe\x01c\xff", "zset k count 3, a : 1.5, b : inf, c : -inf, ."),
        (4, b"\x01\x01f\x01v", "hash k count 1, f = v, ."),
        (5, b"\x01\x01a\0\0\0\0\0\0\xf8\x3f", "zset k count 1, a : 1.5, ."),
    ] {
        assert_eq!(joined("REDIS0008", &value(form, bytes)), events);
    }
    for (form, bytes) in [
        (3, &b"\x01\x01a\xfd"[..]),
        (3, b"\x01\x01a\x03nan"),
        (3, b"\x01\x01a\x031.x"),
        (3, b"\x01\x01a\0"),
        (5, b"\x01\x01a\0\0\0\0\0\0\xf8\x7f"),
    ] {
        let said = joined("REDIS0008", &value(form, bytes));
        assert!(said.starts_with("is damaged"), "{form}: {said}");
    }
}

#[test]
fn packed_collections() {
    let (a, one, half) = (&b"\x81a"[..], &b"\x01"[..], &b"\x830.5"[..]);
    let (za, zone, zhalf) = (&b"\x01a"[..], &b"\xf2"[..], &b"\x030.5"[..]);
    for (form, bytes, events) in [
        (9, string(b"\x01\x01a\x01\x021??\xff"), "hash k count 1, a = 1, ."),
        (10, ziplist(&[za, zone]), "list k count 2, - a, - 1, ."),
        (11, string(b"\x02\0\0\0\x02\0\0\0\xff\xff\x01\0"), "set k count 2, * -1, * 1, ."),
        (12, ziplist(&[za, zhalf, zone, zone]), "zset k count 2, a : 0.5, 1 : 1, ."),
        (13, ziplist(&[za, zone, zone, za]), "hash k count 2, a = 1, 1 = a, ."),
        (16, listpack(&[a, one, one, a]), "hash k count 2, a = 1, 1 = a, ."),
        (17, listpack(&[a, half, one, one]), "zset k count 2, a : 0.5, 1 : 1, ."),
        (20, listpack(&[a, one]), "set k count 2, * a, * 1, ."),
    ] {
        assert_eq!(joined("REDIS0011", &value(form, &bytes)), events);
    }
    for (form, bytes) in [
        (9, string(b"\0\xff")),
        (11, string(b"\x02\0\0\0\0\0\0\0")),
        (12, ziplist(&[za])),
        (12, ziplist(&[za, b"\x03nan"])),
        (13, ziplist(&[za, za, za])),
        (16, listpack(&[a])),
        (17, listpack(&[a, a])),
    ] {
        let said = joined("REDIS0011", &value(form, &bytes));
        assert!(said.starts_with("is damaged"), "{form}: {said}");
    }
}

#[test]
fn lists_in_nodes() {
    let old = [&b"\x03"[..], &ziplist(&[b"\x01a"]), &ziplist(&[]), &ziplist(&[b"\xf2", b"\x01b"])];
    assert_eq!(joined("REDIS0007", &value(14, &old.concat())), "list k, - a, - 1, - b, .");
    let new = [
        &b"\x04\x02"[..],
        &listpack(&[b"\x81a", b"\x05"]),
        b"\x01\x03big",
        b"\x02",
        &listpack(&[]),
        b"\x02",
        &listpack(&[b"\x81z"]),
    ];
    assert_eq!(joined("REDIS0010", &value(18, &new.concat())), "list k, - a, - 5, - big, - z, .");
    for (form, bytes) in [
        (14, [&b"\x02"[..], &ziplist(&[]), &string(b"x")].concat()),
        (18, [&b"\x01\x03"[..], &listpack(&[b"\x81a"])].concat()),
    ] {
        let said = joined("REDIS0010", &value(form, &bytes));
        assert!(said.starts_with("is damaged"), "{form}: {said}");
    }
}

#[test]
fn collections_without_elements_are_passed_over() {
    let base = 1000_u64.to_le_bytes();
    for (form, bytes, kind) in [
        (1, b"\0".to_vec(), "list"),
        (2, b"\0".to_vec(), "set"),
        (3, b"\0".to_vec(), "zset"),
        (4, b"\0".to_vec(), "hash"),
        (5, b"\0".to_vec(), "zset"),
        (10, ziplist(&[]), "list"),
        (12, ziplist(&[]), "zset"),
        (13, ziplist(&[]), "hash"),
        (14, b"\0".to_vec(), "list"),
        (14, [&b"\x02"[..], &ziplist(&[]), &ziplist(&[])].concat(), "list"),
        (16, listpack(&[]), "hash"),
        (17, listpack(&[]), "zset"),
        (18, b"\0".to_vec(), "list"),
        (18, [&b"\x01\x02"[..], &listpack(&[])].concat(), "list"),
        (20, listpack(&[]), "set"),
        (24, [&base[..], b"\0"].concat(), "hash"),
        (25, [&base[..], &listpack(&[])].concat(), "hash"),
    ] {
        // It has a time of its own, and the next key has not.
        let body = [b"\xfc\0\0\0\0\x01\0\0\0", &value(form, &bytes)[..], b"\0\x01s\x01v"].concat();
        let said = joined("REDIS0012", &body);
        assert_eq!(said, format!("empty {kind} k, string s, = v, ."), "{form}");
    }
}

#[test]
fn fields_that_expire() {
    let base = 1000_u64.to_le_bytes();
    let timed = listpack(&[b"\x81a", b"\x81b", b"\0", b"\x81c", b"\x01", b"\x7f"]);
    for (magic, form, bytes, events) in [
        // Redis before 7.4 was out: the time itself; then: counted from the base, the base being 1.
        ("REDIS0012", 22, b"\x02\0\x01a\x01b\x05\x01c\x01d".to_vec(), "a = b, c = d until 5"),
        ("REDIS0012", 23, timed.clone(), "a = b, c = 1 until 127"),
        (
            "REDIS0012",
            24,
            [&base[..], b"\x02\0\x01a\x01b\x05\x01c\x01d"].concat(),
            "a = b, c = d until 1004",
        ),
        ("REDIS0012", 25, [&base[..], &timed].concat(), "a = b, c = 1 until 127"),
        // Valkey: behind the field, eight bytes.
        (
            "VALKEY080",
            22,
            [&b"\x02\x01a\x01b"[..], &[0xff; 8], b"\x01c\x01d\x05\0\0\0\0\0\0\0"].concat(),
            "a = b, c = d until 5",
        ),
    ] {
        let said = joined(magic, &value(form, &bytes));
        assert_eq!(said, format!("hash k count 2, {events}, ."), "{magic} {form}");
    }
    for (magic, form, bytes) in [
        ("REDIS0012", 22, [&b"\x01\x81"[..], &[0xff; 8], b"\x01a\x01b"].concat()),
        ("REDIS0012", 24, [&[0xff; 8][..], b"\x01\x01\x01a\x01b"].concat()),
        ("REDIS0012", 23, listpack(&[b"\x81a", b"\x81b", b"\x81c"])),
        ("REDIS0012", 23, listpack(&[b"\x81a", b"\x81b"])),
        ("REDIS0012", 23, listpack(&[b"\x81a", b"\x81b", b"\xdf\xff"])),
        ("VALKEY080", 22, [&b"\x01\x01a\x01b\xfe"[..], &[0xff; 7]].concat()),
        ("VALKEY080", 24, [&base[..], b"\x01\0\x01a\x01b"].concat()),
    ] {
        let said = joined(magic, &value(form, &bytes));
        assert!(said.starts_with("is damaged"), "{magic} {form}: {said}");
    }
}

#[test]
fn templates_of_hashes() {
    let template = b"\xf2\x07\x02\x01a\x02bb";
    let values = listpack(&[b"\x07", b"\x81x", b"\x05"]);
    let names = listpack(&[b"\x81a", b"\x82bb"]);
    let fields = "hash k count 2, a = x, bb = 5, .";
    for (form, bytes) in [
        (29, [&b"\0"[..], &names, &values].concat()),
        (29, [&b"\x01\x02\x01a\x02bb"[..], &values].concat()),
        (30, values.clone()),
        (31, [&b"\0"[..], &names, b"\x01x\xc0\x05"].concat()),
        (31, b"\x01\x02\x01a\x02bb\x01x\xc0\x05".to_vec()),
        (32, b"\x07\x01x\xc0\x05".to_vec()),
    ] {
        let body = [&template[..], &value(form, &bytes)].concat();
        assert_eq!(joined("REDIS0015", &body), fields, "{form}");
    }
    for (form, bytes) in [
        (30, listpack(&[b"\x06", b"\x81x", b"\x05"])),
        (30, listpack(&[b"\x07", b"\x81x"])),
        (30, listpack(&[b"\x81n", b"\x81x", b"\x05"])),
        (30, listpack(&[])),
        (32, b"\x06\x01x\xc0\x05".to_vec()),
        (29, [&b"\x02"[..], &names, &values].concat()),
        (29, [&b"\0"[..], &listpack(&[]), &values].concat()),
    ] {
        let said = joined("REDIS0015", &[&template[..], &value(form, &bytes)].concat());
        assert!(said.starts_with("is damaged"), "{form}: {said}");
    }
    assert!(joined("REDIS0015", &template.repeat(2)).contains("the same number"));
    assert!(joined("REDIS0015", b"\xf2\x07\0").contains("is damaged"));
    assert!(joined("VALKEY080", template).contains("is damaged"));
}

#[test]
fn what_is_foreign_is_skipped_exactly() {
    let id = [7; 16];
    let time = [1; 8];
    let node = [&b"\x01\x10"[..], &id, b"\x02lp"].concat();
    let pending = [&b"\x01"[..], &id, &time, b"\x03"].concat();
    let group = |offset: &[u8], times: usize, back: &[u8]| {
        let consumer = [&b"\x01\x01c"[..], &time.repeat(times), b"\x01", &id].concat();
        [&b"\x01\x01g\x01\x02"[..], offset, &pending, &consumer, back].concat()
    };
    // A stream of Redis 8.6 or 8.8 is not looked into.
    let first = [&node[..], b"\x01\x05\x06"].concat();
    let second = [&first[..], b"\x05\x06\0\0\x01"].concat();
    let given_back = [&b"\x01"[..], &id].concat();
    let producers = b"\x64\x0a\x0a\x01\x01p\x01\x01i\x05\x06\x01\x02";
    for (form, bytes, what) in [
        (
            7,
            b"\x81abcdefgh\x01\x05\x02\x40\x05\x03abcd\x04abcdefgh\x05\x03txt\0".to_vec(),
            "module",
        ),
        (26, [&second[..], &group(b"\x01", 2, b""), &producers[1..]].concat(), "stream"),
        (27, [&second[..], &group(b"\x01", 2, &given_back), &producers[1..]].concat(), "stream"),
        (28, b"\x02\x01\x05\x01\x01abcdefgh\x02\0\x01s".to_vec(), "array"),
        (28, b"\x02\0\x01\x02abcdefgh\x02\x03\x01s".to_vec(), "array"),
    ] {
        let body = [&value(form, &bytes)[..], b"\0\x01n\x01v"].concat();
        let expected = format!("{what} k, string n, = v, .");
        assert_eq!(joined("REDIS0014", &body), expected, "{form}");
    }
    for (form, bytes) in [
        (6, b"\x01\0".to_vec()),
        (7, b"\x01\x06\0".to_vec()),
        (15, b"\x01\x02id\x02lp\0\0\0\0".to_vec()),
        (28, b"\x01\x02".to_vec()),
        (28, b"\x01\0\x01\x04\x01s".to_vec()),
        (33, b"\x01\0".to_vec()),
        (8, b"\x01\0".to_vec()),
    ] {
        let said = joined("REDIS0014", &value(form, &bytes));
        assert!(said.starts_with("is damaged"), "{form}: {said}");
    }
}

/// A node of a stream: 5-1 and 5-3 with the field `f`, and 7-0 with `g`; one between them is deleted.
fn node() -> Vec<u8> {
    let entries: [&[u8]; 34] = [
        // Three entries, one deleted, the first one's names, and the end of that.
        b"\x03",
        b"\x01",
        b"\x01",
        b"\x81f",
        b"\x00",
        b"\x02",
        b"\x00",
        b"\x00",
        b"\x81a",
        b"\x04",
        b"\x03",
        b"\x00",
        b"\x01",
        b"\x81b",
        b"\x04",
        b"\x02",
        b"\x00",
        b"\x02",
        b"\x05",
        b"\x04",
        // Others, with two fields.
        b"\x00",
        b"\x02",
        b"\xdf\xff",
        b"\x02",
        b"\x81g",
        b"\x81c",
        b"\x81h",
        b"\x7f",
        b"\x08",
        b"",
        b"",
        b"",
        b"",
        b"",
    ];
    let entries: Vec<&[u8]> = entries.into_iter().filter(|entry| !entry.is_empty()).collect();
    let master = [[0, 0, 0, 0, 0, 0, 0, 5], [0, 0, 0, 0, 0, 0, 0, 1]].concat();
    [&b"\x10"[..], &master, &listpack(&entries)].concat()
}

#[test]
fn streams_of_every_generation() {
    let id = |seq: u8| [&[0; 7][..], &[5], &[0; 7], &[seq]].concat();
    let time = |ms: u8| [&[ms][..], &[0; 7]].concat();
    let entries = [b"\x01", &node()[..]].concat();
    let pending = [&b"\x02"[..], &id(1), &time(9), b"\x03", &id(2), &time(8), b"\x01"].concat();
    let consumers = |times: &[u8]| {
        [&b"\x02\x01c"[..], times, b"\x01", &id(2), b"\x01d", times, b"\x01", &id(1)].concat()
    };
    let group = |read: &[u8], times: &[u8]| {
        [&b"\x01\x01g\x05\x02"[..], read, &pending, &consumers(times)].concat()
    };
    let of_entries = "stream k, 5-1, f = a, 5-3, f = 5, 7-0, g = c, h = 127";
    let of_group = |read: &str, active: &str| {
        format!(
            "group g 5-2 read {read}, pending 5-1 at 9 3 times, pending 5-2 at 8 1 times, \
             consumer c seen 6 active {active}, held 5-2, consumer d seen 6 active {active}, held 5-1, ."
        )
    };
    let numbers = b"\x03\x08\x01\x05\x01\x06\x02\x09";
    for (form, bytes, expected) in [
        (
            15,
            [&entries[..], &numbers[..3], &group(b"", &time(6))].concat(),
            format!(
                "{of_entries}, last 8-1 deleted 0-0 added 3, {}",
                of_group("Unsaid", "Some(6)")
            ),
        ),
        (
            19,
            [&entries[..], numbers, &group(b"\x04", &time(6))].concat(),
            format!(
                "{of_entries}, last 8-1 deleted 6-2 added 9, {}",
                of_group("Known(4)", "Some(6)")
            ),
        ),
        (
            21,
            [
                &entries[..],
                numbers,
                &group(&[&[0x81][..], &[0xff; 8]].concat(), &[time(6), vec![0xff; 8]].concat()),
            ]
            .concat(),
            format!("{of_entries}, last 8-1 deleted 6-2 added 9, {}", of_group("Unknown", "None")),
        ),
        (15, b"\0\0\x05\x06\0".to_vec(), "stream k, last 5-6 deleted 0-0 added 0, .".to_owned()),
    ] {
        let body = [&value(form, &bytes)[..], b"\0\x01n\x01v"].concat();
        assert_eq!(joined("REDIS0011", &body), format!("{expected}, string n, = v, ."), "{form}");
    }
    let good = [&entries[..], &numbers[..3], b"\0"].concat();
    let two = [b"\x02", &node()[..], &node(), &numbers[..3], b"\0"].concat();
    let with = |at: usize, byte: u8| {
        let mut bad = good.clone();
        bad[at] = byte;
        bad
    };
    assert!(joined("REDIS0011", &value(15, &good)).starts_with(of_entries));
    for (what, bad) in [
        ("its ids do not rise", two),
        ("its key is no id", with(1, 0x0f)),
        ("its length", with(good.len() - 4, 4)),
        ("its last id", with(good.len() - 3, 6)),
        ("how many entries a node has", with(25, 4)),
        ("how many are deleted", with(27, 0)),
        ("no names", with(29, 0)),
    ] {
        let said = joined("REDIS0011", &value(15, &bad));
        assert!(said.contains("is damaged"), "{what}: {said}");
    }
    for at in 0..good.len() {
        for byte in 0..=u8::MAX {
            let _ = joined("REDIS0011", &value(15, &with(at, byte)));
        }
    }
}

/// A stream of so many small entries that share a name of 40,000 bytes.
fn repeating(count: u16) -> Vec<u8> {
    let number = |number: u16| [0xc0 | number.to_be_bytes()[0], number.to_be_bytes()[1], 2];
    let name = [&[0xf0, 0x40, 0x9c, 0, 0][..], &[b'n'; 40_000], &[0x02, 0xb8, 0xc5]].concat();
    let mut body = [&number(count)[..], b"\x00\x01\x01\x01", &name, b"\x00\x01"].concat();
    for seq in 0..count {
        body.extend_from_slice(b"\x02\x01\x00\x01");
        body.extend_from_slice(&number(seq));
        body.extend_from_slice(b"\x81a\x02\x04\x01");
    }
    let total = u32::try_from(body.len() + 7).unwrap();
    let elements = 5 + 5 * count;
    let pack = [&total.to_le_bytes()[..], &elements.to_le_bytes(), &body, &[0xff]].concat();
    let master = [[0, 0, 0, 0, 0, 0, 0, 5], [0, 0, 0, 0, 0, 0, 0, 1]].concat();
    let [high, low] = count.to_be_bytes();
    let length = [0x40 | high, low];
    let last = [&[5][..], &[0x80, 0, 0, high, low]].concat();
    [&b"\x01\x10"[..], &master, &string(pack), &length, &last, b"\0"].concat()
}

/// Else a file of a megabyte could take a terabyte.
#[test]
fn names_are_not_repeated_without_bounds() {
    let said = joined("REDIS0011", &value(15, &repeating(100)));
    assert_eq!(said.matches(&"n".repeat(40_000)).count(), 100);
    assert!(
        said.ends_with("= a, last 5-100 deleted 0-0 added 100, ."),
        "{}",
        &said[said.len() - 99..]
    );
    let said = joined("REDIS0011", &value(15, &repeating(3000)));
    assert!(said.contains("repeat its field names"), "{}", &said[..said.len().min(200)]);
}

#[test]
fn what_is_no_value() {
    let body = [
        &b"\xfa\x09redis-ver\x067.0.15"[..],
        b"\xfa\x0aredis-bits\xc0\x40",
        b"\xf7\x81abcdefgh\x02\x02\x05\x01x\0",
        b"\xf5\x05#!lua",
        b"\xf6\x01n\x03lua\x01\x04desc\x04code",
        b"\xf6\x01n\x03lua\0\x04code",
        b"\xfe\x02\xfb\x03\x01",
        b"\xf4\x01\x02\x03",
        // An expiry in seconds, one in milliseconds, never; idle times and frequencies.
        b"\xfd\x02\0\0\0\xf9\x05\0\x01a\x01v",
        b"\xfc\xff\x01\0\0\0\0\0\0\xf8\x40\x64\xf3\x01abcd\x02\x05\0\0\x01b\x01v",
        b"\xfc\xff\xff\xff\xff\xff\xff\xff\xff\0\x01c\x01v",
    ];
    let expected = [
        "aux redis-ver=7.0.15",
        "aux redis-bits=64",
        "ignored data of a module",
        "function #!lua",
        "function #!lua name=n\\ncode",
        "function #!lua name=n\\ncode",
        "database 2",
        "sizes 3 1",
        "ignored sizes of a slot",
        "string a expires 2000 used 5",
        "= v",
        ".",
        "ignored a module's metadata of a key",
        "string b expires 511 idle 100",
        "= v",
        ".",
        "string c",
        "= v",
        ".",
        "end, right",
    ];
    let dump = sealed("REDIS0013", &body.concat());
    assert_eq!(lines(&dump[..]).unwrap(), expected);
    assert_eq!(lines(InPieces(&dump, 1)).unwrap(), expected, "byte by byte");
    assert_eq!(joined("VALKEY080", b"\xf3\x02id\x01\x01\x02"), "ignored an import of slots");
    assert!(joined("REDIS0013", b"\xfe\x81\0\0\0\x01\0\0\0\0").contains("is damaged"));
    assert!(joined("REDIS0013", b"\xf0").contains("is damaged"));
}

#[test]
fn versions_and_their_checksums() {
    for version in 1..=15 {
        let magic = format!("REDIS{version:04}");
        let body = value(0, b"\x01v");
        if version < 5 {
            let dump = [magic.as_bytes(), &body, &[0xff]].concat();
            assert_eq!(lines(&dump[..]).unwrap().pop().as_deref(), Some("end"));
            assert!(lines(&sealed(&magic, &body)[..]).is_err(), "nothing follows");
        } else {
            let dump = sealed(&magic, &body);
            assert_eq!(lines(&dump[..]).unwrap().pop().as_deref(), Some("end, right"));
            let dump = unsealed(&magic, &body);
            assert_eq!(lines(&dump[..]).unwrap().pop().as_deref(), Some("end"));
        }
    }
    for magic in ["REDIS0000", "REDIS0016", "VALKEY081", "REDIS00x1", "no dump!!"] {
        let error = lines(&sealed(magic, b"")[..]).unwrap_err();
        assert!(matches!(error, Error::Version(_)), "{error}");
        assert!(error.to_string().contains(magic), "{error}");
    }
}

#[test]
fn what_follows_an_embedded_dump_is_left() {
    let dump = [&sealed("REDIS0010", &value(0, b"\x01v"))[..], b"and more"].concat();
    assert!(lines(&dump[..]).unwrap_err().to_string().contains("goes on"));
    let mut reader = Reader::embedded(InPieces(&dump, 5), LIMITS).unwrap();
    while !matches!(reader.next().unwrap(), Event::End { .. }) {}
    assert_eq!(line(&reader.next().unwrap()), "end, right", "and again");
    let mut rest = Vec::new();
    std::io::Read::read_to_end(&mut reader.into_rest(), &mut rest).unwrap();
    assert_eq!(rest, b"and more");
}
