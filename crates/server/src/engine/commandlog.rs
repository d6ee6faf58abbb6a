//! The slow log: the latest commands that took longer than the user wants.

use std::collections::VecDeque;

use resp::Writer;

/// How many arguments of a command, and how many bytes of each, are kept.
const ARGS_MAX: usize = 32;
const ARG_BYTES_MAX: usize = 128;

/// One slow command.
#[derive(Debug)]
struct Entry {
    id: i64,
    unix_s: i64,
    duration_us: u64,
    args: Vec<Vec<u8>>,
    peer: String,
    client_name: Vec<u8>,
}

/// See the file's top.
#[derive(Debug, Default)]
pub(crate) struct SlowLog {
    /// The newest in front.
    entries: VecDeque<Entry>,
    next_id: i64,
}

impl SlowLog {
    /// Adds a command and forgets what is more than `len_max`.
    pub(crate) fn add(
        &mut self,
        args: &[&[u8]],
        duration_us: u64,
        unix_s: i64,
        peer: &str,
        client_name: &[u8],
        len_max: usize,
    ) {
        let entry = Entry {
            id: self.next_id,
            unix_s,
            duration_us,
            args: abridged(args),
            peer: peer.to_owned(),
            client_name: client_name.to_vec(),
        };
        self.next_id += 1;
        self.entries.push_front(entry);
        self.entries.truncate(len_max);
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn reset(&mut self) {
        self.entries.clear();
    }

    /// The reply of SLOWLOG GET.
    pub(crate) fn write(&self, count_max: usize, reply: &mut Writer) {
        reply.array(self.entries.len().min(count_max));
        for entry in self.entries.iter().take(count_max) {
            reply.array(6);
            reply.int(entry.id);
            reply.int(entry.unix_s);
            reply.int(i64::try_from(entry.duration_us).unwrap_or(i64::MAX));
            reply.array(entry.args.len());
            for arg in &entry.args {
                reply.bulk(arg);
            }
            reply.bulk_str(&entry.peer);
            reply.bulk(&entry.client_name);
        }
    }
}

fn abridged(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let kept = if args.len() > ARGS_MAX { ARGS_MAX - 1 } else { args.len() };
    let mut abridged: Vec<Vec<u8>> = args[..kept]
        .iter()
        .map(|arg| match arg.len().checked_sub(ARG_BYTES_MAX) {
            None | Some(0) => arg.to_vec(),
            Some(more) => {
                [&arg[..ARG_BYTES_MAX], format!("... ({more} more bytes)").as_bytes()].concat()
            }
        })
        .collect();
    if args.len() > kept {
        abridged.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    abridged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_commands_are_abridged() {
        let long = [b'x'; 200];
        let args: Vec<&[u8]> =
            std::iter::once(&long[..]).chain(std::iter::repeat_n(&b"a"[..], 40)).collect();
        let abridged = abridged(&args);
        assert_eq!(abridged.len(), 32);
        assert!(abridged[0].ends_with(b"xxx... (72 more bytes)"));
        assert_eq!(abridged[31], b"... (10 more arguments)");
    }

    #[test]
    fn only_the_newest_stay() {
        let mut log = SlowLog::default();
        for _ in 0..5 {
            log.add(&[b"get"], 1, 0, "", b"", 3);
        }
        assert_eq!(log.len(), 3);
        let mut reply = Writer::default();
        log.write(1, &mut reply);
        assert!(reply.to_vec().starts_with(b"*1\r\n*6\r\n:4\r\n"));
    }
}
