"""Dramatiq: actors with results, delays, retries, priorities, groups, pipelines, dead letters, and rate limits."""

import importlib.metadata
import logging
import os
import time

import dramatiq
import redis
from dramatiq.brokers.redis import RedisBroker
from dramatiq.rate_limits import BucketRateLimiter, ConcurrentRateLimiter, WindowRateLimiter
from dramatiq.rate_limits.backends import RedisBackend as LimitBackend
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

URL = f"redis://127.0.0.1:{os.environ['INDELIBLE_PORT']}"
MILLISECONDS = 60_000

# The failures of actors below are meant.
logging.getLogger("dramatiq").setLevel(logging.CRITICAL)
# Maintenance, which puts back what lost workers held, with every command instead of one in a thousand.
broker = RedisBroker(url=URL, maintenance_chance=1_000_000)
broker.add_middleware(Results(backend=RedisBackend(url=f"{URL}/1")))
dramatiq.set_broker(broker)
noted = []
tries = []


@dramatiq.actor(store_results=True)
def add(a, b):
    return a + b


@dramatiq.actor(store_results=True, max_retries=3, min_backoff=10, max_backoff=20)
def third_time():
    tries.append(1)
    if len(tries) < 3:
        raise ValueError("not yet")
    return len(tries)


@dramatiq.actor(max_retries=0)
def fails():
    raise ValueError("never")


@dramatiq.actor(queue_name="ordered")
def note(word):
    noted.append(word)


def main():
    client = redis.Redis.from_url(URL)
    for number in range(100):
        note.send(number)
    assert client.llen("dramatiq:ordered") == 100
    worker = dramatiq.Worker(broker, worker_threads=1)
    worker.start()
    try:
        broker.join("ordered", timeout=MILLISECONDS)
        worker.join()
        assert sorted(noted) == list(range(100))

        assert add.send(1, 2).get_result(block=True, timeout=MILLISECONDS) == 3
        begin = time.monotonic()
        assert add.send_with_options(args=(3, 4), delay=500).get_result(block=True, timeout=MILLISECONDS) == 7
        assert time.monotonic() - begin >= 0.5
        assert third_time.send().get_result(block=True, timeout=MILLISECONDS) == 3
        group = dramatiq.group([add.message(n, n) for n in range(10)]).run()
        assert list(group.get_results(block=True, timeout=MILLISECONDS)) == [2 * n for n in range(10)]
        pipe = dramatiq.pipeline([add.message(1, 1), add.message(40)]).run()
        assert pipe.get_result(block=True, timeout=MILLISECONDS) == 42

        message = fails.send()
        broker.join("default", timeout=MILLISECONDS)
        worker.join()
        letters = client.hkeys("dramatiq:default.XQ.msgs")
        assert letters == [message.options["redis_message_id"].encode()], letters
    finally:
        worker.stop()

    limits = LimitBackend(url=f"{URL}/2")
    for limiter, allowed in [
        (BucketRateLimiter(limits, "bucket", limit=1, bucket=3_600_000), 1),
        (WindowRateLimiter(limits, "window", limit=3, window=3600), 3),
    ]:
        taken = 0
        for _ in range(5):
            with limiter.acquire(raise_on_failure=False) as acquired:
                taken += acquired
        assert taken == allowed, (limiter, taken)
    mutex = ConcurrentRateLimiter(limits, "mutex", limit=1)
    with mutex.acquire(raise_on_failure=False) as first, mutex.acquire(raise_on_failure=False) as second:
        assert first and not second
    with mutex.acquire(raise_on_failure=False) as again:
        assert again
    print(f"dramatiq {importlib.metadata.version('dramatiq')}: passed")


main()
