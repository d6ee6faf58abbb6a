//! The command logs: the latest commands that took longer, or had a larger request or reply, than
//! the user wants. SLOWLOG shows the first one, COMMANDLOG all.
//!
//! An entry takes at most some kilobytes, whatever the command was, and a log has as many as the
//! user wants.

use std::collections::VecDeque;

use resp::Writer;

use crate::config::LogLimits;

/// How many arguments of a command, and how many bytes of each, are kept.
const ARGS_MAX: usize = 32;
const ARG_BYTES_MAX: usize = 128;

/// What a command log is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Slow,
    LargeRequest,
    LargeReply,
}

impl Kind {
    const ALL: [Self; 3] = [Self::Slow, Self::LargeRequest, Self::LargeReply];
}

/// A command that was executed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Executed {
    pub(crate) duration_us: u64,
    /// Of its arguments as an array of bulk strings, in whatever form they came.
    pub(crate) request_bytes: u64,
    pub(crate) reply_bytes: u64,
}

impl Executed {
    fn measure(&self, kind: Kind) -> u64 {
        match kind {
            Kind::Slow => self.duration_us,
            Kind::LargeRequest => self.request_bytes,
            Kind::LargeReply => self.reply_bytes,
        }
    }

    /// Whether it belongs in one of the logs.
    pub(crate) fn is_notable(&self, limits: &[LogLimits; 3]) -> bool {
        Kind::ALL.into_iter().any(|kind| self.reaches(kind, limits))
    }

    fn reaches(&self, kind: Kind, limits: &[LogLimits; 3]) -> bool {
        let LogLimits { least, len_max } = limits[kind as usize];
        let least = u64::try_from(least);
        len_max > 0 && least.is_ok_and(|least| self.measure(kind) >= least)
    }
}

/// The bytes of a request that is sent as an array of bulk strings.
pub(crate) fn request_bytes(args: &[&[u8]]) -> u64 {
    /// A type, and two line ends.
    const FRAME_BYTES: usize = 5;
    let digits = |len: usize| 1 + len.checked_ilog10().unwrap_or(0) as usize;
    let bulks: usize = args.iter().map(|arg| FRAME_BYTES + digits(arg.len()) + arg.len()).sum();
    (FRAME_BYTES - 2 + digits(args.len()) + bulks) as u64
}

/// One command.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) id: i64,
    pub(crate) unix_s: i64,
    /// In the unit of the log: microseconds or bytes.
    pub(crate) measure: u64,
    pub(crate) args: Vec<Vec<u8>>,
    pub(crate) peer: String,
    pub(crate) client_name: Vec<u8>,
}

/// The commands of one kind.
#[derive(Debug, Default)]
pub(crate) struct CommandLog {
    /// The newest in front.
    entries: VecDeque<Entry>,
    next_id: i64,
}

impl CommandLog {
    /// Adds a command and forgets what is more than `len_max`.
    fn add(&mut self, entry: Entry, len_max: usize) {
        self.entries.push_front(Entry { id: self.next_id, ..entry });
        self.next_id += 1;
        self.entries.truncate(len_max);
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// The commands, the newest first.
    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(crate) fn reset(&mut self) {
        self.entries = VecDeque::new();
    }

    /// The reply of COMMANDLOG GET.
    pub(crate) fn write(&self, count_max: usize, reply: &mut Writer) {
        reply.array(self.entries.len().min(count_max));
        for entry in self.entries.iter().take(count_max) {
            reply.array(6);
            reply.int(entry.id);
            reply.int(entry.unix_s);
            reply.int(i64::try_from(entry.measure).unwrap_or(i64::MAX));
            reply.array(entry.args.len());
            for arg in &entry.args {
                reply.bulk(arg);
            }
            reply.bulk_str(&entry.peer);
            reply.bulk(&entry.client_name);
        }
    }
}

/// The logs of all kinds.
#[derive(Debug, Default)]
pub(crate) struct CommandLogs {
    logs: [CommandLog; 3],
}

impl CommandLogs {
    pub(crate) fn of(&self, kind: Kind) -> &CommandLog {
        &self.logs[kind as usize]
    }

    pub(crate) fn of_mut(&mut self, kind: Kind) -> &mut CommandLog {
        &mut self.logs[kind as usize]
    }

    /// Adds a command to the logs in which it belongs. `limits` are in the order of [`Kind`].
    pub(crate) fn add(
        &mut self,
        executed: &Executed,
        limits: &[LogLimits; 3],
        args: &[&[u8]],
        unix_s: i64,
        peer: &str,
        client_name: &[u8],
    ) {
        let entry = Entry {
            id: 0,
            unix_s,
            measure: 0,
            args: abridged(args),
            peer: peer.to_owned(),
            client_name: abridged_text(client_name),
        };
        for kind in Kind::ALL {
            if executed.reaches(kind, limits) {
                let entry = Entry { measure: executed.measure(kind), ..entry.clone() };
                self.of_mut(kind).add(entry, limits[kind as usize].len_max);
            }
        }
    }
}

fn abridged(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let kept = if args.len() > ARGS_MAX { ARGS_MAX - 1 } else { args.len() };
    let mut abridged: Vec<Vec<u8>> = args[..kept].iter().map(|arg| abridged_text(arg)).collect();
    if args.len() > kept {
        abridged.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    abridged
}

fn abridged_text(text: &[u8]) -> Vec<u8> {
    match text.len().checked_sub(ARG_BYTES_MAX) {
        None | Some(0) => text.to_vec(),
        Some(more) => {
            [&text[..ARG_BYTES_MAX], format!("... ({more} more bytes)").as_bytes()].concat()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: [LogLimits; 3] = [
        LogLimits { least: 10, len_max: 3 },
        LogLimits { least: 100, len_max: 2 },
        LogLimits { least: -1, len_max: 2 },
    ];

    fn executed(duration_us: u64, request_bytes: u64) -> Executed {
        Executed { duration_us, request_bytes, reply_bytes: u64::MAX }
    }

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
        let mut logs = CommandLogs::default();
        for duration_us in 10..15 {
            logs.add(&executed(duration_us, 0), &LIMITS, &[b"get"], 0, "", &[b'n'; 200]);
        }
        assert_eq!(logs.of(Kind::Slow).len(), 3);
        let mut reply = Writer::default();
        logs.of(Kind::Slow).write(1, &mut reply);
        let reply = String::from_utf8(reply.to_vec()).unwrap();
        assert!(reply.starts_with("*1\r\n*6\r\n:4\r\n:0\r\n:14\r\n"), "{reply}");
        assert!(reply.ends_with("nnn... (72 more bytes)\r\n"), "{reply}");
        logs.of_mut(Kind::Slow).reset();
        assert_eq!(logs.of(Kind::Slow).len(), 0);
    }

    #[test]
    fn a_command_is_in_the_logs_whose_limit_it_reaches() {
        let mut logs = CommandLogs::default();
        for (duration_us, request_bytes) in [(9, 99), (10, 99), (9, 100), (10, 100)] {
            let executed = executed(duration_us, request_bytes);
            let is_notable = executed.is_notable(&LIMITS);
            assert_eq!(is_notable, duration_us == 10 || request_bytes == 100);
            logs.add(&executed, &LIMITS, &[b"get"], 0, "", b"");
        }
        let lens = Kind::ALL.map(|kind| logs.of(kind).len());
        assert_eq!(lens, [2, 2, 0], "what is measured as -1 is not logged");
        let none = [LogLimits { least: 0, len_max: 0 }; 3];
        assert!(!executed(u64::MAX, u64::MAX).is_notable(&none));
    }

    #[test]
    fn requests_are_as_long_as_in_the_protocol() {
        for (args, expected) in [
            (&[&b"PING"[..]][..], "*1\r\n$4\r\nPING\r\n".len()),
            (
                &[&b"SET"[..], b"", b"0123456789"],
                "*3\r\n$3\r\nSET\r\n$0\r\n\r\n$10\r\n0123456789\r\n".len(),
            ),
        ] {
            assert_eq!(request_bytes(args), expected as u64, "{args:?}");
        }
        let many = vec![&b"x"[..]; 10];
        assert_eq!(request_bytes(&many), ("*10\r\n".len() + 10 * "$1\r\nx\r\n".len()) as u64);
    }
}
