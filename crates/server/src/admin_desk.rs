//! The admin page's questions, on their way to the executor.
//!
//! ```text
//!   admin thread ── ask: one question, wakes the loop ──► desk ── serve, in the loop's turn ──► engine.report()
//!        ▲                                                                                          │
//!        └───────────────────────────────── answer(report) ─────────────────────────────────────────┘
//! ```
//!
//! There is at most one question: the page has no second one before the first is answered.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use admin::{Admin, AdminError, Answer, Server};

use crate::config::Config;
use crate::logger::Logger;

/// See the file's top.
pub(crate) struct AdminDesk {
    question: Mutex<Option<Answer>>,
    wake: redo::Waker,
}

impl AdminDesk {
    /// A desk for a loop that is woken so.
    pub(crate) fn new(wake: redo::Waker) -> Arc<Self> {
        Arc::new(Self { question: Mutex::default(), wake })
    }

    /// The question that waits, if one does.
    pub(crate) fn take(&self) -> Option<Answer> {
        self.question.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl Server for AdminDesk {
    fn ask(&self, answer: Answer) {
        *self.question.lock().unwrap_or_else(PoisonError::into_inner) = Some(answer);
        (self.wake)();
    }
}

/// Serves the admin page, if one is wanted; what answers it is the desk. A port that is taken is told of and keeps no
/// database from its start: that may be another program's doing, and changes by itself.
pub(crate) fn open(
    config: &Config,
    directory: &Path,
    wake: redo::Waker,
    logger: &Logger,
) -> admin::Result<Option<(Admin, Arc<AdminDesk>)>> {
    let port = config.number::<u16>("admin-port");
    if port == 0 {
        return Ok(None);
    }
    let token_file = directory.join(config.value("admin-token-file"));
    let settings = admin::Settings {
        bind: config.value("admin-bind").to_owned(),
        port,
        token_file: token_file.clone(),
        hosts: config.words("admin-hosts").map(str::to_owned).collect(),
    };
    let desk = AdminDesk::new(wake);
    let page = match admin::start(settings, Arc::clone(&desk) as Arc<dyn admin::Server>) {
        Err(AdminError::Listen { address, source }) if source.kind() == ErrorKind::AddrInUse => {
            logger.warning(&format!(
                "WARNING: admin page: cannot listen on {address}: {source}; starting without the page and its metrics. \
                 Give admin-port one that is free, or end what listens there, and start the server again. What listens there \
                 learns the token of each viewer: give another one afterwards, by removing {}",
                token_file.display()
            ));
            return Ok(None);
        }
        started => started?,
    };
    let how = if page.has_new_token() { ", which was made" } else { "" };
    logger.notice(&format!(
        "Admin page at http://{}/, metrics at /metrics; the token is in {}{how}",
        page.address(),
        token_file.display()
    ));
    if page.is_token_open() {
        logger.warning(&format!(
            "WARNING: others than its owner can read {}: chmod 600",
            token_file.display()
        ));
    }
    if !page.address().ip().is_loopback() {
        logger.warning(
            "WARNING: admin-bind is not the loopback address, and the admin page is not encrypted: the token and all \
             that is shown can be read on the way",
        );
    }
    Ok(Some((page, desk)))
}
