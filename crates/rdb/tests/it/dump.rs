//! Dumps made by hand, and the events of a dump as lines.

use std::io::Read;

use rdb::{Checksum, Error, Event, Key, Limits, Reader};

/// Strings may be this long.
pub(crate) const LIMITS: Limits = Limits { string_bytes_max: 1 << 20 };

/// Redis' CRC64, bit by bit: a test that shared the sum with the program would share its mistakes.
pub(crate) fn crc64(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |sum, byte| {
        (0..8).fold(sum ^ u64::from(*byte), |sum, _| {
            if sum & 1 == 1 { (sum >> 1) ^ 0x95ac_9329_ac4b_c9b5 } else { sum >> 1 }
        })
    })
}

/// A dump of this version (`REDIS0010`) with this between magic and end mark, and the right checksum.
pub(crate) fn sealed(magic: &str, body: &[u8]) -> Vec<u8> {
    let mut dump = [magic.as_bytes(), body, &[0xff]].concat();
    let sum = crc64(&dump);
    dump.extend_from_slice(&sum.to_le_bytes());
    dump
}

/// The same without a checksum.
pub(crate) fn unsealed(magic: &str, body: &[u8]) -> Vec<u8> {
    [magic.as_bytes(), body, &[0xff], &[0; 8]].concat()
}

/// A string as dumps have it, plain.
pub(crate) fn string(bytes: impl AsRef<[u8]>) -> Vec<u8> {
    let bytes = bytes.as_ref();
    let length = u32::try_from(bytes.len()).unwrap();
    if length < 64 {
        [&[u8::try_from(length).unwrap()], bytes].concat()
    } else {
        [&[0x80][..], &length.to_be_bytes(), bytes].concat()
    }
}

/// An event as a line.
pub(crate) fn line(event: &Event<'_>) -> String {
    match event {
        Event::Aux { name, value } => {
            format!("aux {}={}", name.escape_ascii(), value.escape_ascii())
        }
        Event::Database(index) => format!("database {index}"),
        Event::Sizes { keys, expiring } => format!("sizes {keys} {expiring}"),
        Event::Function(code) => format!("function {}", code.escape_ascii()),
        Event::Key(Key { key, kind, count, expires_at_ms, idle_s, frequency }) => {
            let mut line = format!("{} {}", kind.name(), key.escape_ascii());
            for (what, number) in [
                ("count", count.map(i128::from)),
                ("expires", expires_at_ms.map(i128::from)),
                ("idle", idle_s.map(i128::from)),
                ("used", frequency.map(i128::from)),
            ] {
                if let Some(number) = number {
                    line += &format!(" {what} {number}");
                }
            }
            line
        }
        Event::String(bytes) => format!("= {}", bytes.escape_ascii()),
        Event::Item(item) => format!("- {}", item.escape_ascii()),
        Event::Member(member) => format!("* {}", member.escape_ascii()),
        Event::Scored(member, score) => format!("{} : {score}", member.escape_ascii()),
        Event::Field { name, value, expires_at_ms } => {
            let line = format!("{} = {}", name.escape_ascii(), value.escape_ascii());
            expires_at_ms.map_or(line.clone(), |at_ms| format!("{line} until {at_ms}"))
        }
        Event::Entry(id) => id.to_string(),
        Event::Pair(name, value) => format!("{} = {}", name.escape_ascii(), value.escape_ascii()),
        Event::Numbers(numbers) => {
            let rdb::StreamNumbers { last_id, max_deleted_id, entries_added } = numbers;
            format!("last {last_id} deleted {max_deleted_id} added {entries_added}")
        }
        Event::Group { name, last_id, entries_read } => {
            format!("group {} {last_id} read {entries_read:?}", name.escape_ascii())
        }
        Event::Pending(rdb::PendingEntry { id, at_ms, count }) => {
            format!("pending {id} at {at_ms} {count} times")
        }
        Event::Consumer { name, seen_ms, active_ms } => {
            format!("consumer {} seen {seen_ms} active {active_ms:?}", name.escape_ascii())
        }
        Event::Held(id) => format!("held {id}"),
        Event::EndOfKey => ".".to_owned(),
        Event::Empty { key, kind } => format!("empty {} {}", kind.name(), key.escape_ascii()),
        Event::Foreign { key, what } => format!("{what} {}", key.escape_ascii()),
        Event::Ignored { what } => format!("ignored {what}"),
        Event::End { checksum: Checksum::Right } => "end, right".to_owned(),
        Event::End { checksum: Checksum::Absent } => "end".to_owned(),
    }
}

/// All events of a dump, as lines; those before an error are lost.
pub(crate) fn lines(source: impl Read) -> Result<Vec<String>, Error> {
    let mut reader = Reader::new(source, LIMITS)?;
    let mut lines = Vec::new();
    loop {
        let event = reader.next()?;
        lines.push(line(&event));
        if matches!(event, Event::End { .. }) {
            return Ok(lines);
        }
    }
}

/// The events of one key without an end, joined: `hash k count 1, f = v, .`.
pub(crate) fn joined(magic: &str, body: &[u8]) -> String {
    match lines(&unsealed(magic, body)[..]) {
        Ok(mut lines) => {
            assert_eq!(lines.pop().as_deref(), Some("end"));
            lines.join(", ")
        }
        Err(error) => error.to_string(),
    }
}

/// A source that gives at most so many bytes at a time.
pub(crate) struct InPieces<'a>(pub(crate) &'a [u8], pub(crate) usize);

impl Read for InPieces<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let bytes = self.0.len().min(self.1).min(out.len());
        let (now, later) = self.0.split_at(bytes);
        out[..bytes].copy_from_slice(now);
        self.0 = later;
        Ok(bytes)
    }
}
