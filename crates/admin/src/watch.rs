//! The one picture that all viewers see: asked for when it is wanted, at most once a second, and kept with its age.
//!
//! ```text
//!   viewers ─► picture() ── younger than a second? ─► that one
//!                  │ no; one of them asks, the others wait for it
//!                  ▼
//!              Server::ask ── answered within ANSWER_WITHIN ─► a new one
//!                  └───────── not ───────────────────────────► the last one, and the question stays open
//! ```

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Mutex, oneshot};

use crate::info::Info;
use crate::report::{Report, Server};

/// A younger picture is not replaced.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// How long a viewer waits for the executor.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// How many pictures are remembered as points of a curve.
const TRAIL_LEN_MAX: usize = 120;

/// What the server has said, and when.
pub(crate) struct Picture {
    pub(crate) report: Report,
    pub(crate) info: Info,
    pub(crate) at: Instant,
    /// What pictures before it have said, it included.
    pub(crate) trail: Vec<Point>,
}

/// What is remembered of a picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) at: Instant,
    pub(crate) commands_per_s: u64,
    pub(crate) blocks_per_s: u64,
    durable_lsn: u64,
}

/// See the file's top.
pub(crate) struct Watch {
    server: Arc<dyn Server>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: Option<Arc<Picture>>,
    asked_at: Option<Instant>,
    /// A question that is not answered yet.
    open: Option<oneshot::Receiver<Report>>,
    trail: VecDeque<Point>,
}

impl Watch {
    pub(crate) fn new(server: Arc<dyn Server>) -> Self {
        Self { server, state: Mutex::default() }
    }

    /// The newest picture, if the server has ever said anything.
    pub(crate) async fn picture(&self) -> Option<Arc<Picture>> {
        let mut state = self.state.lock().await;
        let is_fresh = state.asked_at.is_some_and(|at| at.elapsed() < FRESH_FOR);
        if is_fresh {
            return state.last.clone();
        }
        state.asked_at = Some(Instant::now());
        if state.open.is_none() {
            let (answer, open) = oneshot::channel();
            // A viewer that has gone needs no answer.
            self.server.ask(Box::new(move |report| drop(answer.send(report))));
            state.open = Some(open);
        }
        if let Some(open) = &mut state.open
            && let Ok(answered) = tokio::time::timeout(ANSWER_WITHIN, open).await
        {
            state.open = None;
            if let Ok(report) = answered {
                state.take(report);
            }
        }
        state.last.clone()
    }
}

impl State {
    fn take(&mut self, report: Report) {
        let (info, at) = (Info::parse(&report.info), Instant::now());
        let durable_lsn = info.number("redo_durable_lsn");
        let before = self.trail.back();
        let blocks_per_s = before.map_or(0, |before| {
            let blocks = durable_lsn.saturating_sub(before.durable_lsn);
            let elapsed_ms = u64::try_from((at - before.at).as_millis()).unwrap_or(u64::MAX).max(1);
            blocks.saturating_mul(1000) / elapsed_ms
        });
        let commands_per_s = info.number("instantaneous_ops_per_sec");
        if self.trail.len() == TRAIL_LEN_MAX {
            self.trail.pop_front();
        }
        self.trail.push_back(Point { at, commands_per_s, blocks_per_s, durable_lsn });
        let trail = self.trail.iter().copied().collect();
        self.last = Some(Arc::new(Picture { report, info, at, trail }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Answer;
    use std::sync::Mutex as StdMutex;

    /// A server that counts questions, and answers them unless it is told to keep them.
    #[derive(Default)]
    struct Counting {
        asked: StdMutex<u64>,
        kept: StdMutex<Option<Vec<Answer>>>,
    }

    impl Server for Counting {
        fn ask(&self, answer: Answer) {
            let mut asked = self.asked.lock().unwrap();
            *asked += 1;
            match &mut *self.kept.lock().unwrap() {
                Some(kept) => kept.push(answer),
                None => answer(numbered(*asked)),
            }
        }
    }

    fn numbered(number: u64) -> Report {
        Report { info: format!("redo_durable_lsn:{number}\r\n"), ..Report::default() }
    }

    fn run(test: impl Future<Output = ()>) {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_time().build().unwrap().block_on(test);
    }

    async fn number(watch: &Watch) -> Option<u64> {
        watch.picture().await.map(|picture| picture.info.number("redo_durable_lsn"))
    }

    #[test]
    fn a_thousand_viewers_ask_once_a_second() {
        run(async {
            let server = Arc::new(Counting::default());
            let watch = Watch::new(Arc::clone(&server) as Arc<dyn Server>);
            for _ in 0..1000 {
                assert_eq!(number(&watch).await, Some(1));
            }
            assert_eq!(*server.asked.lock().unwrap(), 1);
            tokio::time::sleep(FRESH_FOR).await;
            assert_eq!(number(&watch).await, Some(2));
        });
    }

    #[test]
    fn a_server_that_is_busy_is_asked_once_and_shown_as_it_was() {
        run(async {
            let server = Arc::new(Counting::default());
            let watch = Watch::new(Arc::clone(&server) as Arc<dyn Server>);
            assert_eq!(number(&watch).await, Some(1));
            *server.kept.lock().unwrap() = Some(Vec::new());
            for _ in 0..3 {
                tokio::time::sleep(FRESH_FOR).await;
                assert_eq!(number(&watch).await, Some(1), "the last one");
            }
            assert_eq!(*server.asked.lock().unwrap(), 2, "the question is still open");
            let kept = server.kept.lock().unwrap().take().unwrap();
            kept.into_iter().for_each(|answer| answer(numbered(7)));
            tokio::time::sleep(FRESH_FOR).await;
            assert_eq!(number(&watch).await, Some(7));
        });
    }

    #[test]
    fn a_server_that_ends_is_no_picture() {
        run(async {
            let server = Arc::new(Counting::default());
            *server.kept.lock().unwrap() = Some(Vec::new());
            let watch = Watch::new(Arc::clone(&server) as Arc<dyn Server>);
            let (seen, ()) = tokio::join!(number(&watch), async {
                drop(server.kept.lock().unwrap().take());
            });
            assert_eq!(seen, None);
        });
    }
}
