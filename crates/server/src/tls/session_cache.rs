//! Sessions that clients may resume: for how long, on top of rustls' own cache, which knows how
//! many.

use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::server::{ServerSessionMemoryCache, StoresServerSessions};

use super::settings::KeptSessions;

/// Bytes in front of a session: when it was put in, in milliseconds since the cache began.
const TIME_BYTES: usize = 8;

/// See the file's top.
#[derive(Debug)]
pub(super) struct SessionCache {
    kept: Arc<ServerSessionMemoryCache>,
    lifetime: Duration,
    began: Instant,
}

impl SessionCache {
    /// An empty one.
    pub(super) fn new(limits: KeptSessions) -> Self {
        let kept = ServerSessionMemoryCache::new(limits.count);
        Self { kept, lifetime: limits.lifetime, began: Instant::now() }
    }

    fn fresh(&self, stored: Vec<u8>, now: Duration) -> Option<Vec<u8>> {
        let (time, session) = stored.split_first_chunk::<TIME_BYTES>()?;
        let age = now.saturating_sub(Duration::from_millis(u64::from_le_bytes(*time)));
        (age < self.lifetime).then(|| session.to_vec())
    }

    fn put_at(&self, key: Vec<u8>, session: &[u8], now: Duration) -> bool {
        let now_ms = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        self.kept.put(key, [&now_ms.to_le_bytes(), session].concat())
    }
}

impl StoresServerSessions for SessionCache {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.put_at(key, &value, self.began.elapsed())
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.fresh(self.kept.get(key)?, self.began.elapsed())
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.fresh(self.kept.take(key)?, self.began.elapsed())
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_there_for_its_time_and_then_it_is_not() {
        let limits = KeptSessions { count: 10, lifetime: Duration::from_secs(300) };
        let cache = SessionCache::new(limits);
        assert!(cache.put_at(b"id".to_vec(), b"session", Duration::from_secs(50)));
        let at =
            |seconds| cache.fresh(cache.kept.get(b"id").unwrap(), Duration::from_secs(seconds));
        assert_eq!(at(51), Some(b"session".to_vec()));
        assert_eq!(at(349), Some(b"session".to_vec()));
        assert_eq!(at(350), None);
        assert!(cache.put(b"new".to_vec(), b"other".to_vec()));
        assert_eq!(cache.take(b"new"), Some(b"other".to_vec()));
        assert_eq!(cache.get(b"new"), None, "it was taken");
    }
}
