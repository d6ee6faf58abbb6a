//! A store of S3 in this process, on a directory.

use std::net::SocketAddr;
use std::path::PathBuf;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use s3s::auth::SimpleAuth;
use s3s::service::S3ServiceBuilder;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::runtime::{Builder, Runtime};

/// The bucket that it has.
pub(crate) const BUCKET: &str = "backups";

/// See the file's top.
pub(crate) struct Store {
    directory: TempDir,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    _runtime: Runtime,
}

impl Store {
    pub(crate) fn start() -> Self {
        Self::start_for(Some(SimpleAuth::from_single("id", "secret")))
    }

    /// One that asks for no signature, if there is nothing to compare it with.
    pub(crate) fn start_for(auth: Option<SimpleAuth>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join(BUCKET)).unwrap();
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let mut service = S3ServiceBuilder::new(s3s_fs::FileSystem::new(directory.path()).unwrap());
        auth.into_iter().for_each(|auth| service.set_auth(auth));
        let service = service.build();
        let listener = runtime.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        runtime.spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                // Otherwise each answer waits for the client to have acknowledged its beginning.
                socket.set_nodelay(true).unwrap();
                let service = service.clone();
                tokio::spawn(async move {
                    let server = auto::Builder::new(TokioExecutor::new());
                    let _cut = server.serve_connection(TokioIo::new(socket), service).await;
                });
            }
        });
        Self { directory, address, _runtime: runtime }
    }

    /// The files of its bucket.
    pub(crate) fn files(&self) -> PathBuf {
        self.directory.path().join(BUCKET)
    }
}

/// What the environment says of a store that is reached there.
pub(crate) fn variables(address: SocketAddr) -> Vec<(String, String)> {
    let endpoint = format!("http://{address}");
    [
        ("AWS_ACCESS_KEY_ID", "id"),
        ("AWS_SECRET_ACCESS_KEY", "secret"),
        ("AWS_REGION", "us-east-1"),
        ("AWS_ENDPOINT_URL", &endpoint),
        ("AWS_ALLOW_HTTP", "true"),
    ]
    .map(|(name, value)| (name.to_owned(), value.to_owned()))
    .to_vec()
}
