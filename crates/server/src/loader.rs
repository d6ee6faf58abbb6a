//! A thread that opens the log and reads it.
//!
//! What comes before that, an import, has its own errors: it is a part of opening.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};

use mio::Waker;

use crate::engine::{Engine, OpenLogError};

/// See the file's top.
pub(crate) struct Loader<T, E = OpenLogError> {
    reports: Receiver<Report<T, E>>,
    total_bytes: Arc<AtomicU64>,
    loaded_bytes: Arc<AtomicU64>,
}

/// What the thread says, in this order; nothing comes after an error.
pub(crate) enum Report<T, E = OpenLogError> {
    /// The log is locked and looked at, or cannot be.
    LookedAt(Result<(), E>),
    /// It was read.
    Read(Result<T, OpenLogError>),
}

impl<T: Send + 'static, E: Send + 'static> Loader<T, E> {
    /// Starts it: `open` locks and looks, `read` reads. Both tell how far they are.
    pub(crate) fn spawn(
        open: impl FnOnce(&mut dyn FnMut(redo::Progress)) -> Result<redo::Recovery, E> + Send + 'static,
        waker: &Arc<Waker>,
        read: impl FnOnce(redo::Recovery, &mut dyn FnMut(redo::Progress)) -> Result<T, OpenLogError>
        + Send
        + 'static,
    ) -> Result<Self, OpenLogError> {
        Self::begin(waker, move |tell, report| {
            let recovery = match open(tell) {
                Ok(recovery) => recovery,
                Err(why) => return report(Report::LookedAt(Err(why))),
            };
            tell(redo::Progress { bytes_done: 0, bytes_total: recovery.bytes_total(), records: 0 });
            report(Report::LookedAt(Ok(())));
            let loaded = read(recovery, tell);
            report(Report::Read(loaded));
        })
    }

    /// Starts one that loads what is no log.
    pub(crate) fn spawn_without_log(
        waker: &Arc<Waker>,
        load: impl FnOnce(&mut dyn FnMut(redo::Progress)) -> Result<T, E> + Send + 'static,
    ) -> Result<Self, OpenLogError> {
        Self::begin(waker, move |tell, report| match load(tell) {
            Ok(loaded) => report(Report::Read(Ok(loaded))),
            Err(why) => report(Report::LookedAt(Err(why))),
        })
    }

    fn begin(
        waker: &Arc<Waker>,
        run: impl FnOnce(&mut dyn FnMut(redo::Progress), &dyn Fn(Report<T, E>)) + Send + 'static,
    ) -> Result<Self, OpenLogError> {
        let (sender, reports) = channel();
        let total_bytes = Arc::new(AtomicU64::new(0));
        let loaded_bytes = Arc::new(AtomicU64::new(0));
        let (total, progress) = (Arc::clone(&total_bytes), Arc::clone(&loaded_bytes));
        let waker = Arc::clone(waker);
        let thread = std::thread::Builder::new().name("recovery".to_owned());
        let spawned = thread.spawn(move || {
            let report = |report| {
                // The receiver is gone when the server ends meanwhile.
                let _ignored = sender.send(report);
                let _ignored = waker.wake();
            };
            let mut tell = |so_far: redo::Progress| {
                total.store(so_far.bytes_total, Ordering::Relaxed);
                progress.store(so_far.bytes_done, Ordering::Relaxed);
                let _ignored = waker.wake();
            };
            run(&mut tell, &report);
        });
        spawned.map_err(OpenLogError::NoThread)?;
        Ok(Self { reports, total_bytes, loaded_bytes })
    }

    /// What the thread has to say, if anything is new.
    pub(crate) fn take(&self) -> Result<Option<Report<T, E>>, OpenLogError> {
        match self.reports.try_recv() {
            Err(TryRecvError::Empty) => Ok(None),
            Err(TryRecvError::Disconnected) => Err(OpenLogError::Panicked),
            Ok(report) => Ok(Some(report)),
        }
    }

    /// Tells the engine how far it is.
    pub(crate) fn report(&self, engine: &mut Engine) {
        let (total, loaded) = (&self.total_bytes, &self.loaded_bytes);
        engine.set_loading(total.load(Ordering::Relaxed), loaded.load(Ordering::Relaxed));
    }
}
