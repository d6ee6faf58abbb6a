"""Huey: results, delays, retries, pipelines, locks, rate limits, revocation; and a queue with priorities."""

import importlib.metadata
import logging
import os
import time

import huey
from huey.exceptions import RateLimitExceeded, TaskException, TaskLockedException

PORT = int(os.environ["INDELIBLE_PORT"])
SECONDS = 60

# The failures of tasks below are meant.
logging.getLogger("huey").setLevel(logging.CRITICAL)
queue = huey.RedisHuey("tasks", host="127.0.0.1", port=PORT)
urgent = huey.PriorityRedisExpireHuey("urgent", host="127.0.0.1", port=PORT)
noted = []
tries = []


@queue.task()
def add(a, b):
    return a + b


@queue.task(retries=2)
def third_time():
    tries.append(1)
    if len(tries) < 3:
        raise ValueError("not yet")
    return len(tries)


@queue.task()
def fails():
    raise ValueError("never")


@urgent.task()
def note(word):
    noted.append(word)
    return word


def result(handle):
    return handle.get(blocking=True, timeout=SECONDS)


def result_at_last(handle):
    """The same of a task that is tried again: how each attempt has failed is a result, too, until the next one."""
    until = time.time() + SECONDS
    while True:
        try:
            return result(handle)
        except TaskException:
            if time.time() > until:
                raise
            handle.reset()


def main():
    queue.storage.flush_all()
    urgent.storage.flush_all()
    handles = [note(word, priority=priority) for word, priority in [("c", 1), ("a", 9), ("d", 0), ("b", 5)]]
    revoked = add(0, 0)
    revoked.revoke()
    assert revoked.is_revoked() and queue.pending_count() == 1

    consumers = [consumed.create_consumer(workers=1, scheduler_interval=1) for consumed in (queue, urgent)]
    for consumer in consumers:
        consumer.start()
    try:
        assert [result(handle) for handle in handles] == ["c", "a", "d", "b"]
        assert noted == ["a", "b", "c", "d"], noted

        assert result(add(1, 2)) == 3
        assert revoked.get() is None
        begin = time.time()
        assert result(add.schedule((3, 4), delay=1)) == 7
        assert time.time() - begin >= 0.99
        assert result_at_last(third_time()) == 3
        assert queue.enqueue(add.s(1, 1).then(add, 40)).get(blocking=True, timeout=SECONDS) == [2, 42]
        assert add.map([(n, n) for n in range(10)]).get(blocking=True, timeout=SECONDS) == [2 * n for n in range(10)]
        try:
            result(fails())
            raise AssertionError("the failure of a task was not told")
        except TaskException as error:
            assert "never" in str(error)
    finally:
        for consumer in consumers:
            consumer.stop(graceful=True)

    with queue.lock_task("lock"):
        assert queue.is_locked("lock")
        try:
            queue.lock_task("lock").acquire()
            raise AssertionError("a lock was taken twice")
        except TaskLockedException:
            pass
    assert not queue.is_locked("lock")

    limit = queue.rate_limit("limit", 3, 3600)
    taken = 0
    for _ in range(5):
        try:
            limit.acquire()
            taken += 1
        except RateLimitExceeded:
            pass
    # Five where an hour begins between two of them.
    assert taken in (3, 4, 5), taken
    print(f"huey {importlib.metadata.version('huey')}: passed")


main()
