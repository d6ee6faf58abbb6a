//! Another machine as a place for archives: `transfer:HOST:PORT/NAME`, where `indelible transfer serve` runs.
//!
//! An object is a file that is put once, over the verified protocol: each page with its checksum, durable when it is answered, and read back from the
//! medium when the device has had to let go of it. The token is the environment's, so that it is in no configuration file, nor
//! in what CONFIG GET shows.

use std::io;

use archive::{
    Error, Folder, Name, Object, Put, Readback, Result, Target, TargetError, TargetResult,
    parse_database,
};
use redo::Id;
use transfer::{RelativePath, Store, Token, Trust, Verification};

pub(crate) const SCHEME: &str = "transfer:";

/// Where the token is, as for `indelible transfer`.
pub(crate) const TOKEN_VARIABLE: &str = "INDELIBLE_TRANSFER_TOKEN";

/// See the file's top.
pub(crate) struct Machine {
    store: Store,
    url: String,
}

impl Machine {
    /// The place that a URL names, with the token of the environment. Nothing is asked of it yet.
    pub(crate) fn from_environment(url: &str) -> Result<Self> {
        let failed = |why: &dyn std::fmt::Display| Error::NoTarget {
            place: url.to_owned(),
            why: why.to_string(),
        };
        let rest = url.strip_prefix(SCHEME).unwrap_or_default();
        let remote = rest.parse().map_err(|error| failed(&error))?;
        let trust = match std::env::var(TOKEN_VARIABLE) {
            Ok(token) => Trust::Token(token.parse::<Token>().map_err(|error| failed(&error))?),
            Err(_) => Trust::Loopback,
        };
        let store = Store::new(remote, trust, Verification::default());
        Ok(Self { store, url: url.to_owned() })
    }

    fn shown(&self, path: &RelativePath) -> String {
        format!("{}/{path}", self.url.trim_end_matches('/'))
    }
}

fn folder_of(database: Id, folder: Folder) -> RelativePath {
    path_of(format!("{database}/{}", folder.name()))
}

fn object_of(database: Id, name: &Name) -> RelativePath {
    path_of(format!("{database}/{name}"))
}

fn path_of(text: String) -> RelativePath {
    RelativePath::new(text).expect("ids and names are digits, dashes and dots")
}

/// An error of the protocol, of a kind that archives look at.
fn io_error(error: transfer::Error) -> io::Error {
    match error {
        transfer::Error::Io { what, source } => {
            io::Error::new(source.kind(), format!("{what}: {source}"))
        }
        error => io::Error::other(error.to_string()),
    }
}

impl Target for Machine {
    fn put_new(&self, database: Id, name: &Name, bytes: &[u8]) -> TargetResult<Put> {
        let path = object_of(database, name);
        let put = self.store.put_new(&path, bytes).map_err(io_error);
        match put.map_err(TargetError::of("put", self.shown(&path)))? {
            true => Ok(Put::New),
            false => Ok(Put::Taken),
        }
    }

    fn open(&self, database: Id, name: &Name) -> TargetResult<Box<dyn Object>> {
        let path = object_of(database, name);
        let failed = || TargetError::of("open", self.shown(&path));
        let bytes = self.store.open(&path).map_err(io_error).map_err(failed())?;
        let bytes = bytes.ok_or_else(|| failed()(io::ErrorKind::NotFound.into()))?;
        Ok(Box::new(Kept { store: self.store.clone(), path, bytes }))
    }

    fn list(&self, database: Id, folder: Folder) -> TargetResult<Vec<Name>> {
        let path = folder_of(database, folder);
        let names = self.store.names(Some(&path), false).map_err(io_error);
        let names = names.map_err(TargetError::of("list", self.shown(&path)))?;
        let names = names.unwrap_or_default().into_iter();
        let mut names: Vec<Name> = names
            .filter_map(|name| Name::parse(folder, std::str::from_utf8(&name).ok()?))
            .collect();
        names.sort_unstable();
        Ok(names)
    }

    fn remove(&self, database: Id, name: &Name) -> TargetResult<()> {
        let path = object_of(database, name);
        let removed = self.store.remove(&path).map_err(io_error);
        removed.map_err(TargetError::of("remove", self.shown(&path)))
    }

    /// Nothing: what was not sent as a whole is removed there.
    fn clean(&self, _: Id, _: &dyn Fn(&Name) -> bool) -> TargetResult<()> {
        Ok(())
    }

    fn databases(&self) -> TargetResult<Vec<Id>> {
        let failed = || TargetError::of("list", self.url.clone());
        let names = self.store.names(None, true).map_err(io_error).map_err(failed())?;
        let names = names.ok_or_else(|| failed()(io::ErrorKind::NotFound.into()))?;
        let names = names.into_iter().filter_map(|name| String::from_utf8(name).ok());
        let mut ids: Vec<Id> = names.filter_map(|name| parse_database(&name)).collect();
        ids.sort_unstable();
        Ok(ids)
    }

    fn readback(&self) -> TargetResult<Option<Readback>> {
        let stand = self.store.stand().map_err(io_error);
        let stand = stand.map_err(TargetError::of("ask", self.url.clone()))?;
        let damaged = stand.damaged.iter().map(ToString::to_string).collect();
        Ok(Some(Readback { put: stand.put, verified: stand.verified, damaged }))
    }
}

/// An object that is read.
struct Kept {
    store: Store,
    path: RelativePath,
    bytes: u64,
}

impl Object for Kept {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.bytes)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64);
        if end.is_none_or(|end| end > self.bytes) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.store.read(&self.path, offset, buffer).map_err(io_error)
    }
}
