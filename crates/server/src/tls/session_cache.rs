//! Sessions that clients may resume: so many, for so long, and of so many bytes.
//!
//! ```text
//!   put ─► [ oldest … newest ]   names in the order in which they came
//!               │        │
//!               ▼        ▼
//!          { name: session }     forgotten when its time is over, or when there is no room for newer ones
//! ```
//!
//! A session has what the client has shown of itself, its certificates too. What TLS 1.3 resumes is taken out, so that a name
//! in the queue may be of a session that has gone: its number says so.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use base::Mutex;
use rustls::server::StoresServerSessions;

use super::settings::KeptSessions;

/// How many bytes sessions may have together.
const BYTES_MAX: usize = 64 << 20;

/// A session.
#[derive(Debug)]
struct Kept {
    number: u64,
    at: Duration,
    session: Vec<u8>,
}

#[derive(Debug, Default)]
struct Sessions {
    kept: HashMap<Vec<u8>, Kept>,
    /// The number of each session, and its name.
    queue: VecDeque<(u64, Vec<u8>)>,
    last_number: u64,
    bytes: usize,
}

impl Sessions {
    fn put(&mut self, name: Vec<u8>, session: Vec<u8>, now: Duration, limits: KeptSessions) {
        self.last_number += 1;
        self.queue.push_back((self.last_number, name.clone()));
        self.bytes += session.len();
        let kept = Kept { number: self.last_number, at: now, session };
        if let Some(replaced) = self.kept.insert(name, kept) {
            self.bytes -= replaced.session.len();
        }
        while let Some((number, name)) = self.queue.front() {
            let kept = self.kept.get(name).filter(|kept| kept.number == *number);
            let is_room = self.queue.len() <= limits.count && self.bytes <= BYTES_MAX;
            if kept.is_some_and(|kept| is_room && now.saturating_sub(kept.at) < limits.lifetime) {
                break;
            }
            if kept.is_some()
                && let Some(gone) = self.kept.remove(name)
            {
                self.bytes -= gone.session.len();
            }
            self.queue.pop_front();
        }
    }

    fn take(&mut self, name: &[u8]) -> Option<Kept> {
        let kept = self.kept.remove(name)?;
        self.bytes -= kept.session.len();
        Some(kept)
    }
}

/// See the file's top.
#[derive(Debug)]
pub(super) struct SessionCache {
    sessions: Mutex<Sessions>,
    limits: KeptSessions,
    began: Instant,
}

impl SessionCache {
    /// An empty one.
    pub(super) fn new(limits: KeptSessions) -> Self {
        Self { sessions: Mutex::new(Sessions::default()), limits, began: Instant::now() }
    }

    fn is_fresh(&self, kept: &Kept, now: Duration) -> bool {
        now.saturating_sub(kept.at) < self.limits.lifetime
    }
}

impl StoresServerSessions for SessionCache {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.sessions.lock().put(key, value, self.began.elapsed(), self.limits);
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let sessions = self.sessions.lock();
        let kept = sessions.kept.get(key).filter(|kept| self.is_fresh(kept, self.began.elapsed()));
        kept.map(|kept| kept.session.clone())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        let kept = self.sessions.lock().take(key);
        kept.filter(|kept| self.is_fresh(kept, self.began.elapsed())).map(|kept| kept.session)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: KeptSessions = KeptSessions { count: 3, lifetime: Duration::from_secs(300) };

    fn put(sessions: &mut Sessions, name: &[u8], bytes: usize, second: u64) {
        sessions.put(name.to_vec(), vec![0; bytes], Duration::from_secs(second), LIMITS);
        let bytes: usize = sessions.kept.values().map(|kept| kept.session.len()).sum();
        assert_eq!(sessions.bytes, bytes);
        assert!(
            sessions.queue.len() <= LIMITS.count && sessions.kept.len() <= sessions.queue.len()
        );
    }

    fn names(sessions: &Sessions) -> Vec<&[u8]> {
        let mut names: Vec<&[u8]> = sessions.kept.keys().map(Vec::as_slice).collect();
        names.sort_unstable();
        names
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many_and_when_its_time_is_over() {
        let mut sessions = Sessions::default();
        for (name, second) in [(b"a", 0), (b"b", 1), (b"c", 2), (b"d", 3)] {
            put(&mut sessions, name, 10, second);
        }
        assert_eq!(names(&sessions), [b"b", b"c", b"d"]);
        // One that has come anew is not the oldest any more, and one that was taken does no harm.
        put(&mut sessions, b"b", 20, 4);
        assert_eq!(names(&sessions), [b"b", b"c", b"d"]);
        assert!(sessions.take(b"c").is_some() && sessions.take(b"c").is_none());
        put(&mut sessions, b"e", 10, 5);
        assert_eq!(names(&sessions), [b"b", b"d", b"e"]);
        put(&mut sessions, b"f", 10, 304);
        assert_eq!(names(&sessions), [b"e", b"f"]);
    }

    #[test]
    fn large_ones_do_not_take_more_than_there_is_for_all() {
        let mut sessions = Sessions::default();
        put(&mut sessions, b"a", BYTES_MAX / 2, 0);
        put(&mut sessions, b"b", BYTES_MAX / 2, 0);
        put(&mut sessions, b"c", 1, 0);
        assert_eq!(names(&sessions), [b"b", b"c"]);
        put(&mut sessions, b"d", BYTES_MAX + 1, 0);
        assert_eq!(names(&sessions), [b""; 0]);
    }

    #[test]
    fn a_session_is_there_for_its_time_and_then_it_is_not() {
        let cache = SessionCache::new(LIMITS);
        assert!(cache.put(b"new".to_vec(), b"session".to_vec()));
        assert_eq!(cache.get(b"new"), Some(b"session".to_vec()));
        assert_eq!(cache.take(b"new"), Some(b"session".to_vec()));
        assert_eq!((cache.get(b"new"), cache.take(b"new")), (None, None), "it was taken");
        let kept = Kept { number: 1, at: Duration::from_secs(50), session: Vec::new() };
        assert!(cache.is_fresh(&kept, Duration::from_secs(349)));
        assert!(!cache.is_fresh(&kept, Duration::from_secs(350)));
    }
}
