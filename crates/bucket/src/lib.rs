//! A bucket of an S3 store, as a target of archives: `s3://bucket/prefix`.
//!
//! ```text
//!   archiver's thread ── put_new ──► PUT prefix/DATABASE/log/NAME, If-None-Match: * ──► there, whole, or there was one
//!                     ── list ─────► GET ?list-type=2&prefix=…                       ──► all that was put before
//!                     ── open ─────► GET, the first 64 KiB, and then 8 MiB at a time
//! ```
//!
//! The only crate with a runtime for asynchronous calls: one on which the calling thread itself waits. Each call ends after
//! a time that depends on its length, so a store that hangs is an error that is tried again, as everything at a target is.
//!
//! **What it needs of a store**: a PUT makes an object be there whole or not at all, a list has what was put before (both are what S3
//! promises since 2020), and `If-None-Match: *` is obeyed. A store that ignores that would give two writers the same number. So each claim is put
//! twice: a store that takes it twice is refused.
//!
//! **What it is given**: the bucket and the prefix by the URL; credentials, region and endpoint by the environment alone
//! (`AWS_ACCESS_KEY_ID` …), so that none of them is in a configuration file, nor in what CONFIG GET shows. It goes nowhere else: redirects are not followed.

mod object;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use archive::{Error, Folder, Name, Object, Put, Result, Target, TargetError, TargetResult};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::client::{HttpClient, HttpConnector};
use object_store::list::{PaginatedListOptions, PaginatedListStore as _};
use object_store::path::Path;
use object_store::{
    ClientConfigKey, ClientOptions, ListResult, ObjectStore as _, ObjectStoreExt as _, PutMode,
    PutOptions, PutPayload, RetryConfig,
};
use redo::Id;
use tokio::runtime::{Builder, Runtime};

use crate::object::Stored;

const SCHEME: &str = "s3://";

/// How long a connection may take to be there.
const CONNECT_MAX: Duration = Duration::from_secs(5);

/// How long a call may take, and more for each MiB that it sends or gets.
const CALL_MAX: Duration = Duration::from_secs(30);
const CALL_MAX_A_MIB: Duration = Duration::from_secs(8);

/// A call that the store asks to be repeated, or that was cut off, is repeated so often before it has failed.
const REPEATED_MAX: usize = 2;
const REPEATED_WITHIN: Duration = Duration::from_secs(20);

/// So much is told of what a store says.
const SAID_CHARS_MAX: usize = 300;
const CODE_BYTES_MAX: usize = 60;

/// See the file's top.
#[derive(Clone)]
pub struct Bucket {
    store: Arc<AmazonS3>,
    runtime: Arc<Runtime>,
    prefix: Path,
    url: String,
    call_max: Duration,
}

/// Makes clients that follow no redirect: what is signed for a store is not for another one.
#[derive(Debug)]
struct Connector;

impl HttpConnector for Connector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        // The metadata of a machine, which credentials may come from, are there in clear only.
        let allowed = options.get_config_value(&ClientConfigKey::AllowHttp);
        let allows_http = allowed.is_some_and(|value| {
            ["true", "1", "yes", "y", "on"].contains(&value.to_ascii_lowercase().as_str())
        });
        let client = reqwest::Client::builder()
            .user_agent(concat!("indelible/", env!("CARGO_PKG_VERSION")))
            .redirect(reqwest::redirect::Policy::none())
            .https_only(!allows_http)
            .connect_timeout(CONNECT_MAX)
            .build()
            .map_err(|error| object_store::Error::Generic { store: "S3", source: error.into() })?;
        Ok(HttpClient::new(client))
    }
}

impl Bucket {
    /// The bucket and the prefix that a URL names, with credentials and endpoint of the environment. Nothing is asked of the store yet.
    ///
    /// # Errors
    /// When the URL names none, or the environment has half of what is needed.
    pub fn from_environment(url: &str) -> Result<Self> {
        let variables = std::env::vars_os();
        Self::new(
            url,
            variables.filter_map(|(name, value)| {
                Some((name.into_string().ok()?, value.into_string().ok()?))
            }),
        )
    }

    /// The same, with these variables instead of the environment's.
    ///
    /// # Errors
    /// As of [`Self::from_environment`].
    pub fn new(url: &str, variables: impl IntoIterator<Item = (String, String)>) -> Result<Self> {
        let failed = |why: &dyn fmt::Display| Error::NoTarget {
            place: url.to_owned(),
            why: why.to_string(),
        };
        let rest = url.strip_prefix(SCHEME).filter(|rest| !rest.contains(['?', '#', '@']));
        let rest = rest.ok_or_else(|| failed(&"give a bucket and a prefix: s3://bucket/prefix"))?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        if bucket.is_empty() {
            return Err(failed(&"it names no bucket: s3://bucket/prefix"));
        }
        let prefix = Path::parse(prefix).map_err(|error| failed(&error))?;
        let mut builder = AmazonS3Builder::new();
        for (name, value) in variables {
            let Some(key) = config_key(&name) else { continue };
            builder = builder.with_config(key, value);
        }
        // It takes the place of what the process has chosen only if nothing has.
        let _chosen_before = rustls::crypto::ring::default_provider().install_default();
        let retry = RetryConfig {
            max_retries: REPEATED_MAX,
            retry_timeout: REPEATED_WITHIN,
            ..RetryConfig::default()
        };
        let store = builder
            .with_bucket_name(bucket)
            .with_retry(retry)
            // A request for each object, which every store knows.
            .with_disable_bulk_delete(true)
            .with_http_connector(Connector)
            .build()
            .map_err(|error| failed(&error))?;
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        Ok(Self {
            store: Arc::new(store),
            runtime: Arc::new(runtime),
            prefix,
            url: url.to_owned(),
            call_max: CALL_MAX,
        })
    }

    /// Waits for a call that sends or gets so many bytes.
    fn wait<T>(
        &self,
        bytes: usize,
        call: impl Future<Output = object_store::Result<T>>,
    ) -> io::Result<T> {
        let mib = u32::try_from(bytes >> 20).unwrap_or(u32::MAX);
        let most = self.call_max + CALL_MAX_A_MIB.saturating_mul(mib);
        let timed = async { tokio::time::timeout(most, call).await };
        match self.runtime.block_on(timed) {
            Ok(done) => done.map_err(io_error),
            Err(_) => {
                let what = format!("it has not answered for {} seconds", most.as_secs());
                Err(io::Error::new(io::ErrorKind::TimedOut, what))
            }
        }
    }

    /// Puts an object, if there is none.
    fn create(&self, path: &Path, bytes: &[u8]) -> io::Result<Put> {
        let options = PutOptions { mode: PutMode::Create, ..PutOptions::default() };
        let payload = PutPayload::from(bytes.to_vec());
        match self.wait(bytes.len(), self.store.put_opts(path, payload, options)) {
            Ok(_) => Ok(Put::New),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Put::Taken),
            Err(error) => Err(error),
        }
    }

    fn folder(&self, database: Id, folder: Folder) -> Path {
        self.prefix.clone().join(database.to_string()).join(folder.name())
    }

    fn path(&self, database: Id, name: &Name) -> Path {
        self.folder(database, name.folder()).join(name.file_name())
    }

    /// What an error says of where it was.
    fn shown(&self, path: &Path) -> String {
        let bucket = self.url[SCHEME.len()..].split('/').next().unwrap_or_default();
        format!("{SCHEME}{bucket}/{path}")
    }

    /// Gives all that is in a folder to `take`, a page at a time: a page is waited for, and never all of them together.
    fn list_folder(&self, folder: &Path, take: &mut dyn FnMut(ListResult)) -> TargetResult<()> {
        let prefix = if folder.is_root() { String::new() } else { format!("{folder}/") };
        let mut page_token = None;
        loop {
            let options = PaginatedListOptions {
                delimiter: Some("/".into()),
                page_token,
                ..PaginatedListOptions::default()
            };
            let page = self.wait(0, self.store.list_paginated(Some(&prefix), options));
            let page = page.map_err(TargetError::of("list", self.shown(folder)))?;
            take(page.result);
            page_token = page.page_token;
            if page_token.is_none() {
                return Ok(());
            }
        }
    }
}

/// What a variable of the environment sets, if it is one of those of S3.
fn config_key(name: &str) -> Option<AmazonS3ConfigKey> {
    // The bucket is the URL's.
    let name = name.starts_with("AWS_").then(|| name.to_ascii_lowercase())?;
    let key = name.parse().ok()?;
    (!matches!(key, AmazonS3ConfigKey::Bucket)).then_some(key)
}

/// An error of the store, of a kind that its user looks at.
fn io_error(error: object_store::Error) -> io::Error {
    let kind = match &error {
        object_store::Error::NotFound { .. } => io::ErrorKind::NotFound,
        object_store::Error::AlreadyExists { .. } => io::ErrorKind::AlreadyExists,
        object_store::Error::PermissionDenied { .. }
        | object_store::Error::Unauthenticated { .. } => io::ErrorKind::PermissionDenied,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, without_body(&error.to_string()))
}

/// What an error says, without the body of an answer, but for the code in it: a store repeats there what it was sent,
/// tokens among it.
fn without_body(error: &str) -> String {
    let status = "Server returned non-2xx status code: ";
    let response = "Server returned error response:";
    let end = match (error.find(status), error.find(response)) {
        (Some(at), _) => {
            let from = at + status.len();
            error[from..].find(':').map_or(error.len(), |end| from + end)
        }
        (None, Some(at)) => at + response.len() - 1,
        (None, None) => error.find('<').unwrap_or(error.len()),
    };
    let code = error[end..].split_once("<Code>").and_then(|(_, rest)| rest.split_once("</Code>"));
    let code = code.map(|(code, _)| code).filter(|code| {
        code.len() <= CODE_BYTES_MAX && code.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    let said = error[..end].chars().filter(|it| !it.is_control()).take(SAID_CHARS_MAX);
    let said: String = said.collect();
    code.map_or(said.clone(), |code| format!("{said} ({code})"))
}

impl Target for Bucket {
    fn put_new(&self, database: Id, name: &Name, bytes: &[u8]) -> TargetResult<Put> {
        let path = self.path(database, name);
        let failed = || TargetError::of("put", self.shown(&path));
        let put = self.create(&path, bytes).map_err(failed())?;
        let is_claimed =
            put == Put::New && matches!(name, Name::Writer { .. } | Name::Tidier { .. });
        if is_claimed && self.create(&path, bytes).map_err(failed())? == Put::New {
            // A later claim removes earlier ones: then the store has not replaced this one.
            let is_later = |other: &Name| other > name;
            if self.list(database, name.folder())?.iter().any(is_later) {
                return Ok(Put::New);
            }
            self.remove(database, name)?;
            let what = "the store puts an object in the place of another one (it ignores If-None-Match), so two servers could write one archive: use another store, or a newer version";
            return Err(failed()(io::Error::new(io::ErrorKind::Unsupported, what)));
        }
        Ok(put)
    }

    fn open(&self, database: Id, name: &Name) -> TargetResult<Box<dyn Object>> {
        let path = self.path(database, name);
        let shown = self.shown(&path);
        let stored = Stored::open(self.clone(), path).map_err(TargetError::of("open", shown))?;
        Ok(Box::new(stored))
    }

    fn list(&self, database: Id, folder: Folder) -> TargetResult<Vec<Name>> {
        let mut names: Vec<Name> = Vec::new();
        self.list_folder(&self.folder(database, folder), &mut |page| {
            let found = page.objects.iter().filter_map(|object| object.location.filename());
            names.extend(found.filter_map(|name| Name::parse(folder, name)));
        })?;
        names.sort_unstable();
        Ok(names)
    }

    fn remove(&self, database: Id, name: &Name) -> TargetResult<()> {
        let path = self.path(database, name);
        match self.wait(0, self.store.delete(&path)) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed.map_err(TargetError::of("remove", self.shown(&path))),
        }
    }

    /// Nothing: an object that was not sent as a whole is not there.
    fn clean(&self, _: Id, _: &dyn Fn(&Name) -> bool) -> TargetResult<()> {
        Ok(())
    }

    fn databases(&self) -> TargetResult<Vec<Id>> {
        let mut ids: Vec<Id> = Vec::new();
        self.list_folder(&self.prefix, &mut |page| {
            let names = page.common_prefixes.iter().filter_map(Path::filename);
            ids.extend(names.filter_map(archive::parse_database));
        })?;
        ids.sort_unstable();
        Ok(ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn variables(more: &[(&str, &str)]) -> Vec<(String, String)> {
        let keys = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", "secret")];
        let all = keys.iter().chain(more);
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn of_what_a_store_answers_only_the_code_is_told() {
        let answered = "Error performing PUT http://h/b/o in 3ms - Server returned non-2xx status code: 400 Bad Request: \
            <?xml version=\"1.0\"?><Error><Code>ExpiredToken</Code><Token-0>SECRET</Token-0></Error>";
        let told = without_body(answered);
        assert!(
            told.ends_with("400 Bad Request (ExpiredToken)") && !told.contains("SECRET"),
            "{told}"
        );
        let told =
            without_body("Server returned error response: {\"token\": \"SECRET\"}\nforged line");
        assert_eq!(told, "Server returned error response");
        assert_eq!(without_body("no\nroute").as_str(), "noroute");
        let forged = "status code: 403 Forbidden: <Code>a\nb</Code>";
        assert!(!without_body(forged).contains("a\nb"));
        assert!(without_body(&"x".repeat(9000)).len() <= SAID_CHARS_MAX);
    }

    #[test]
    fn a_url_is_a_bucket_and_a_prefix() {
        let database = Id([0x6c; 16]);
        for (url, path) in [
            ("s3://backups", ""),
            ("s3://backups/", ""),
            ("s3://backups/shop", "shop/"),
            ("s3://backups/of/shop/", "of/shop/"),
        ] {
            let bucket = Bucket::new(url, variables(&[])).unwrap();
            let shown = bucket.shown(&bucket.path(database, &Name::Writer { writer: 3 }));
            assert_eq!(shown, format!("s3://backups/{path}{database}/writer/0000000003"), "{url}");
        }
        for url in [
            "s3://",
            "s3:///shop",
            "http://backups/shop",
            "s3://id:secret@backups/shop",
            "s3://b/../c",
            "s3://b/a//c",
        ] {
            let error = Bucket::new(url, variables(&[])).err().unwrap();
            assert!(matches!(error, Error::NoTarget { .. }), "{url}: {error}");
        }
    }

    #[test]
    fn the_environment_does_not_say_which_bucket() {
        for name in ["AWS_BUCKET", "AWS_BUCKET_NAME"] {
            let more = variables(&[(name, "another")]);
            let bucket = Bucket::new("s3://backups/shop", more).unwrap();
            assert!(format!("{:?}", bucket.store).contains("backups"), "{:?}", bucket.store);
        }
        let half = [("AWS_ACCESS_KEY_ID".to_owned(), "id".to_owned())];
        let error = Bucket::new("s3://backups/shop", half).err().unwrap().to_string();
        assert!(error.contains("no target of an archive"), "{error}");
    }

    #[test]
    fn a_store_that_never_answers_is_an_error_after_a_while() {
        // Connections are there, and nothing is read of them.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let endpoint = format!("http://{}", listener.local_addr().unwrap());
        let more = [("AWS_ENDPOINT_URL", endpoint.as_str()), ("AWS_ALLOW_HTTP", "true")];
        let mut bucket = Bucket::new("s3://backups/shop", variables(&more)).unwrap();
        bucket.call_max = Duration::from_millis(100);
        let error = bucket.databases().unwrap_err();
        assert_eq!(error.source.kind(), io::ErrorKind::TimedOut, "{error}");
        assert!(error.to_string().contains("cannot list s3://backups/shop"), "{error}");
    }

    /// A server that answers everything by sending the client to another one.
    #[test]
    fn redirects_are_not_followed() {
        use std::io::{Read as _, Write as _};
        let [here, there] = [(); 2].map(|()| std::net::TcpListener::bind("127.0.0.1:0").unwrap());
        let endpoint = format!("http://{}", here.local_addr().unwrap());
        let elsewhere = there.local_addr().unwrap();
        std::thread::spawn(move || {
            for mut client in here.incoming().map_while(std::result::Result::ok) {
                let _request = client.read(&mut [0; 4096]);
                let head =
                    "HTTP/1.1 307 Temporary Redirect\r\ncontent-length: 0\r\nconnection: close";
                let _gone = write!(client, "{head}\r\nlocation: http://{elsewhere}/\r\n\r\n");
            }
        });
        there.set_nonblocking(true).unwrap();
        let more = [("AWS_ENDPOINT_URL", endpoint.as_str()), ("AWS_ALLOW_HTTP", "true")];
        let bucket = Bucket::new("s3://backups/shop", variables(&more)).unwrap();
        let error = bucket.databases().unwrap_err().to_string();
        assert!(error.contains("307"), "{error}");
        let called = there.accept().map(|_| ());
        assert_eq!(called.unwrap_err().kind(), io::ErrorKind::WouldBlock, "nothing has called");
    }
}
