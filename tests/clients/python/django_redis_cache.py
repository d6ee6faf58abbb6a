"""django-redis: the cache, its own additions (nx, ttl, patterns, locks), and sessions kept in it."""

import importlib.metadata
import os
import threading

import django
from django.conf import settings

settings.configure(
    CACHES={
        "default": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": f"redis://127.0.0.1:{os.environ['INDELIBLE_PORT']}/0",
            "OPTIONS": {"CLIENT_CLASS": "django_redis.client.DefaultClient"},
        }
    },
    SESSION_ENGINE="django.contrib.sessions.backends.cache",
)
django.setup()

from django.contrib.sessions.backends.cache import SessionStore  # noqa: E402
from django.core.cache import cache  # noqa: E402
from redis.exceptions import LockError  # noqa: E402


def values():
    assert cache.set("k", {"a": [1, 2]}, timeout=100)
    assert cache.get("k") == {"a": [1, 2]}
    assert 98 <= cache.ttl("k") <= 100
    assert cache.get("missing", "else") == "else"
    assert not cache.add("k", 1) and cache.add("new", 1)
    assert not cache.set("k", 2, nx=True)
    assert cache.get_or_set("made", lambda: 5) == 5
    assert cache.incr("new", 4) == 5 and cache.decr("new") == 4
    cache.set_many({"m1": 1, "m2": 2})
    assert cache.get_many(["m1", "m2", "m3"]) == {"m1": 1, "m2": 2}
    assert cache.touch("m1", 50) and 48 <= cache.ttl("m1") <= 50
    assert cache.persist("m1") and cache.ttl("m1") is None
    assert sorted(cache.keys("m?")) == ["m1", "m2"]
    assert sorted(cache.iter_keys("m?")) == ["m1", "m2"]
    assert cache.delete_pattern("m?") == 2
    assert cache.has_key("k") and cache.delete("k") and not cache.has_key("k")


def locks():
    counted = [0]

    def count():
        for _ in range(20):
            with cache.lock("lock", timeout=60, sleep=0.002, blocking_timeout=60):
                seen = counted[0]
                counted[0] = seen + 1

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counted == [80], counted
    lock, other = cache.lock("lock", timeout=60), cache.lock("lock", timeout=60)
    assert lock.acquire() and lock.owned() and not other.acquire(blocking=False)
    assert lock.extend(60) and lock.reacquire()
    lock.release()
    try:
        lock.release()
        raise AssertionError("a lock was given back twice")
    except LockError:
        pass


def sessions():
    session = SessionStore()
    session["user"] = 7
    session.save()
    assert SessionStore(session.session_key)["user"] == 7
    session.cycle_key()
    assert SessionStore(session.session_key)["user"] == 7
    session.flush()
    assert not SessionStore().exists(session.session_key)


cache.clear()
values()
locks()
sessions()
print(f"django-redis {importlib.metadata.version('django-redis')}: passed")
