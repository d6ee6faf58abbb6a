//! What is to be brought, and where.

use std::time::Duration;

use rdb::Value;

/// What the target is told of the user.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    /// The user, if one was named.
    pub name: Option<Vec<u8>>,
    /// Its password.
    pub password: Vec<u8>,
}

/// Where keys go, and how.
#[derive(Clone)]
pub struct Order {
    /// A name or an address.
    pub host: String,
    /// The port; 0, where nothing listens, if what was given is none.
    pub port: u16,
    /// AUTH or AUTH2.
    pub credentials: Option<Credentials>,
    /// The number of the database there.
    pub database: i64,
    /// How long the target may be silent.
    pub timeout: Duration,
    /// Whether keys that are there are replaced.
    pub replaces: bool,
    /// `rdb-version`: what the target knows of payloads, at least.
    pub payload_readers: rdb::Version,
}

/// A key on its way.
#[derive(Clone, Debug, PartialEq)]
pub struct Parcel {
    /// Its name.
    pub key: Box<[u8]>,
    /// How long it still lives; 0 if it does not expire.
    pub ttl_ms: i64,
    /// Its value.
    pub value: Value,
}
