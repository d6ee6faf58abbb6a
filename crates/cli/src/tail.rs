//! `indelible log tail`: what has changed, a JSON line a block, from a directory, an archive or a running server.

use std::io::{self, BufWriter, ErrorKind, Write as _, stdout};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::str::FromStr;
use std::sync::Arc;

use anyhow::bail;
use env::Disk;
use server::tail::{TailError, read_archived, read_stored};

use crate::archive::{database_of, is_archive, target_of};
use crate::archive_places::KeyFiles;
use crate::client::Client;
use crate::login::Login;

/// The exit code that says that the first block is gone.
const GONE: u8 = 3;

/// How many blocks are asked for at a time; the server bounds the bytes.
const BLOCKS_MAX: &str = "1000";

/// How long the server lets a request wait for blocks.
const BLOCK_MS: &str = "5000";

/// A line longer than this is none of a server's.
const LINE_BYTES_MAX: u64 = 1 << 32;

/// The first block that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    /// This one.
    At(u64),
    /// The first that comes from here on.
    Now,
}

impl FromStr for Start {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text.parse() {
            Ok(lsn @ 1..) => Ok(Self::At(lsn)),
            Err(_) if text.eq_ignore_ascii_case("now") => Ok(Self::Now),
            _ => Err("give the number of a block, from 1, or now"),
        }
    }
}

/// The arguments.
pub(crate) struct Tail {
    pub(crate) source: String,
    pub(crate) from: Start,
    pub(crate) follows: bool,
    pub(crate) log: Option<redo::Id>,
    pub(crate) login: Login,
    pub(crate) devices: Vec<PathBuf>,
    /// Of an archive: the database, if it has several.
    pub(crate) database: Option<String>,
    pub(crate) keys: KeyFiles,
}

impl Tail {
    /// Gives the blocks to the standard output.
    pub(crate) fn run(self, disk: Arc<dyn Disk>) -> anyhow::Result<ExitCode> {
        let directory = Path::new(&self.source);
        let ended = match directory.is_dir() {
            true => self.read_directory(directory, disk),
            false if is_archive(directory) => self.read_archive(),
            false if self.source.contains(':') => self.read_server(),
            false => bail!("{} is no directory, no archive, and not HOST:PORT", self.source),
        };
        match ended {
            // What reads the lines has had enough.
            Err(error) if is_broken_pipe(&error) => Ok(ExitCode::SUCCESS),
            ended => ended,
        }
    }

    fn read_directory(&self, directory: &Path, disk: Arc<dyn Disk>) -> anyhow::Result<ExitCode> {
        if self.follows {
            bail!("nothing changes in a log that no server has open: --follow is for HOST:PORT");
        }
        if !redo::is_there(&*disk, directory) {
            crate::log::say_no_log(directory);
            return Ok(ExitCode::from(2));
        }
        if redo::is_in_use(&*disk, directory)? {
            bail!(
                "{} is in use by a server, which alone knows what is durable: give its HOST:PORT",
                directory.display()
            );
        }
        let mut out = BufWriter::new(stdout().lock());
        let from = match self.from {
            Start::At(lsn) => Some(lsn),
            Start::Now => None,
        };
        let read = read_stored(disk, (directory, &self.devices), from, self.log, &mut |line| {
            out.write_all(line)?;
            out.write_all(b"\n")
        });
        out.flush()?;
        match read {
            Err(why @ (TailError::Gone { .. } | TailError::OtherLog { .. })) => {
                eprintln!("{why}");
                Ok(ExitCode::from(GONE))
            }
            Err(why) => Err(why.into()),
            Ok(None) => {
                crate::log::say_no_log(directory);
                Ok(ExitCode::from(2))
            }
            Ok(Some(tail)) => {
                if tail.undurable > 0 {
                    eprintln!(
                        "{} blocks behind block {} are not given out: the server did not live to learn that \
                         they are durable; its next start settles that",
                        tail.undurable, tail.last
                    );
                }
                Ok(ExitCode::SUCCESS)
            }
        }
    }

    fn read_archive(&self) -> anyhow::Result<ExitCode> {
        if self.follows {
            bail!(
                "an archive is read to its end: run it again --from the block behind the last line"
            );
        }
        let target = target_of(&self.source, &self.keys)?;
        let database = database_of(&*target, self.database.as_deref())?;
        let from = match self.from {
            Start::At(lsn) => Some(lsn),
            Start::Now => None,
        };
        let mut out = BufWriter::new(stdout().lock());
        let read = read_archived(&*target, database, from, self.log, &mut |line| {
            out.write_all(line)?;
            out.write_all(b"\n")
        });
        out.flush()?;
        match read {
            Ok(_) => Ok(ExitCode::SUCCESS),
            Err(why @ (TailError::NotArchived { .. } | TailError::OtherLog { .. })) => {
                eprintln!("{why}");
                Ok(ExitCode::from(GONE))
            }
            Err(why) => Err(why.into()),
        }
    }

    fn read_server(&self) -> anyhow::Result<ExitCode> {
        let mut client = Client::connect(&self.source, &self.login)?;
        let mut out = BufWriter::new(stdout().lock());
        // Without --follow the end is where the log ends now.
        client.send(&["LOGTAIL", "now"])?;
        let Some((end, _)) = blocks(&mut client, &mut out)? else {
            return Ok(ExitCode::from(GONE));
        };
        let mut after = match self.from {
            Start::At(lsn) => lsn - 1,
            Start::Now => end,
        };
        // The server is asked even if there is nothing behind: it knows which log this is, and whether the block is ahead.
        loop {
            let (position, log) = (after.to_string(), self.log.map(|log| log.to_string()));
            let mut words = vec!["LOGTAIL", &position, "COUNT", BLOCKS_MAX];
            words.extend(["BLOCK", BLOCK_MS].into_iter().take(if self.follows { 2 } else { 0 }));
            words.extend(log.iter().flat_map(|log| ["LOG", log]));
            client.send(&words)?;
            let Some((last, count)) = blocks(&mut client, &mut out)? else {
                return Ok(ExitCode::from(GONE));
            };
            out.flush()?;
            if !self.follows && (count == 0 || last >= end) {
                return Ok(ExitCode::SUCCESS);
            }
            after = last;
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        let io = cause.downcast_ref::<io::Error>();
        io.is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
    })
}

/// Reads the reply of LOGTAIL and writes its lines to `out`. Returns the last block that is known then, and how
/// many lines there were; `None` if the block is gone, which is told.
fn blocks(client: &mut Client, out: &mut impl io::Write) -> anyhow::Result<Option<(u64, u64)>> {
    match client.line()? {
        (b'*', count) if count == "2" => {}
        (b'-', why) if why.starts_with("LOGGONE") => {
            eprintln!("{why}");
            return Ok(None);
        }
        (_, why) => bail!("{why}"),
    }
    let last = client.number(b':')?;
    let count = client.number(b'*')?;
    for _ in 0..count {
        client.copy_bytes(LINE_BYTES_MAX, out)?;
        out.write_all(b"\n")?;
    }
    Ok(Some((last, count)))
}
