//! The one picture that all viewers see: asked for when it is wanted, at most once a second, and kept with its age.
//!
//! ```text
//!   viewers ─► picture() ── younger than a second? ─► that one
//!                  │ no: one of them asks, and all wait for the same answer
//!                  ▼
//!              Server::ask ── answered within ANSWER_WITHIN ─► a new one, as old as its answer
//!                  └───────── not ───────────────────────────► the last one, and the question stays open
//! ```
//!
//! An answer has the time at which the executor gave it: one that comes when its viewers have gone is as old as that
//! when the next viewer sees it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::info::Info;
use crate::report::{Report, Server};
use crate::rises::Rises;

/// A younger picture is not replaced.
const FRESH_FOR: Duration = Duration::from_secs(1);

/// How long a viewer waits for the executor.
pub(crate) const ANSWER_WITHIN: Duration = Duration::from_secs(1);

/// How many pictures are remembered as points of a curve.
const TRAIL_LEN_MAX: usize = 120;

/// What the server has said, and when.
#[derive(Debug)]
pub(crate) struct Picture {
    pub(crate) report: Arc<Report>,
    pub(crate) info: Info,
    pub(crate) at: Instant,
    /// What pictures before it have said, it included.
    pub(crate) trail: Vec<Point>,
    /// As of then.
    pub(crate) rises: Rises,
}

/// What is remembered of a picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Point {
    pub(crate) at: Instant,
    pub(crate) commands_per_s: u64,
    pub(crate) blocks_per_s: u64,
    pub(crate) durable_lsn: u64,
}

/// A report, with when the executor gave it; nothing as long as it has not.
type Answered = Option<(Instant, Arc<Report>)>;

/// See the file's top.
pub(crate) struct Watch {
    server: Arc<dyn Server>,
    /// Not locked while anything is waited for.
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    last: Option<Arc<Picture>>,
    asked_at: Option<Instant>,
    /// A question that is not answered yet, as far as is known.
    open: Option<watch::Receiver<Answered>>,
    trail: VecDeque<Point>,
    rises: Rises,
}

impl Watch {
    pub(crate) fn new(server: Arc<dyn Server>) -> Self {
        Self { server, state: Mutex::default() }
    }

    /// The newest picture, if the server has ever said anything.
    pub(crate) async fn picture(&self) -> Option<Arc<Picture>> {
        if let Some(mut open) = self.question() {
            // It is answered, or the server has ended and will not, or this viewer waits no longer.
            let answer = open.wait_for(Option::is_some);
            drop(tokio::time::timeout(ANSWER_WITHIN, answer).await);
        }
        let mut state = self.state();
        state.take_answer();
        state.last.clone()
    }

    /// The question to wait for; nothing if what is known is young, or it is too early to ask again.
    fn question(&self) -> Option<watch::Receiver<Answered>> {
        let mut state = self.state();
        state.take_answer();
        let is_young = |at: Option<Instant>| at.is_some_and(|at| at.elapsed() < FRESH_FOR);
        if is_young(state.last.as_ref().map(|picture| picture.at)) {
            return None;
        }
        if state.open.is_none() && !is_young(state.asked_at) {
            let (answer, open) = watch::channel(None);
            // All viewers may have gone by then.
            let note =
                move |report| drop(answer.send_replace(Some((Instant::now(), Arc::new(report)))));
            self.server.ask(Box::new(note));
            state.asked_at = Some(Instant::now());
            state.open = Some(open);
        }
        state.open.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
impl Picture {
    /// The first picture that there is.
    pub(crate) fn of(report: Report, at: Instant, trail: Vec<Point>) -> Self {
        let (info, mut rises) = (Info::parse(&report.info), Rises::default());
        rises.note(&info, at);
        Self { report: report.into(), info, at, trail, rises }
    }
}

impl State {
    /// Takes the answer of the open question, if there is one by now.
    fn take_answer(&mut self) {
        let Some(open) = &self.open else { return };
        // In this order: an answer is there before its channel is closed.
        let is_over = open.has_changed().is_err();
        let answered = open.borrow().clone();
        if is_over || answered.is_some() {
            self.open = None;
        }
        if let Some((at, report)) = answered {
            self.take(at, report);
        }
    }

    fn take(&mut self, at: Instant, report: Arc<Report>) {
        let info = Info::parse(&report.info);
        let durable_lsn = info.number("redo_durable_lsn");
        let before = self.trail.back();
        let blocks_per_s = before.map_or(0, |before| {
            let blocks = durable_lsn.saturating_sub(before.durable_lsn);
            let elapsed = at.saturating_duration_since(before.at);
            let elapsed_ms = u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX).max(1);
            blocks.saturating_mul(1000) / elapsed_ms
        });
        let commands_per_s = info.number("instantaneous_ops_per_sec");
        if self.trail.len() == TRAIL_LEN_MAX {
            self.trail.pop_front();
        }
        self.trail.push_back(Point { at, commands_per_s, blocks_per_s, durable_lsn });
        let trail = self.trail.iter().copied().collect();
        self.rises.note(&info, at);
        self.last = Some(Arc::new(Picture { report, info, at, trail, rises: self.rises }));
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
            let kept = server.kept.lock().unwrap().replace(Vec::new()).unwrap();
            kept.into_iter().for_each(|answer| answer(numbered(7)));
            tokio::time::sleep(FRESH_FOR).await;
            let late = watch.picture().await.unwrap();
            assert_eq!(late.info.number("redo_durable_lsn"), 7);
            assert!(late.at.elapsed() >= FRESH_FOR, "it is as old as its answer");
            assert_eq!(*server.asked.lock().unwrap(), 3, "and a new one is asked for");
            let kept = server.kept.lock().unwrap().take().unwrap();
            kept.into_iter().for_each(|answer| answer(numbered(8)));
            assert_eq!(number(&watch).await, Some(8));
        });
    }

    #[test]
    fn viewers_of_a_busy_server_wait_together() {
        run(async {
            let server = Arc::new(Counting::default());
            *server.kept.lock().unwrap() = Some(Vec::new());
            let watch = Arc::new(Watch::new(Arc::clone(&server) as Arc<dyn Server>));
            let look = || {
                let watch = Arc::clone(&watch);
                tokio::spawn(async move { number(&watch).await })
            };
            let begun = Instant::now();
            for viewer in (0..10).map(|_| look()).collect::<Vec<_>>() {
                assert_eq!(viewer.await.unwrap(), None);
            }
            assert!(begun.elapsed() < 2 * ANSWER_WITHIN, "{:?}", begun.elapsed());
            let viewers: Vec<_> = (0..10).map(|_| look()).collect();
            tokio::task::yield_now().await;
            let kept = server.kept.lock().unwrap().take().unwrap();
            kept.into_iter().for_each(|answer| answer(numbered(5)));
            for viewer in viewers {
                assert_eq!(viewer.await.unwrap(), Some(5), "one answer for all");
            }
            assert_eq!(*server.asked.lock().unwrap(), 1);
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
