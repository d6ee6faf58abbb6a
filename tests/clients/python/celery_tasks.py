"""Celery with broker and results on the server: task, group, chord, countdown, priority, retry, inspect, revoke."""

import contextlib
import os
import subprocess
import sys
import time

import celery
import redis
from celery import chord, group

URL = f"redis://127.0.0.1:{os.environ['INDELIBLE_PORT']}"
SECONDS = 60

app = celery.Celery("celery_tasks", broker=f"{URL}/0", backend=f"{URL}/1")
app.conf.update(
    # One task at a time: it shows the order in which the broker hands them out.
    worker_concurrency=1,
    worker_prefetch_multiplier=1,
    task_acks_late=True,
    worker_cancel_long_running_tasks_on_connection_loss=True,
    broker_connection_retry_on_startup=True,
    broker_transport_options={"priority_steps": list(range(10)), "queue_order_strategy": "priority"},
)


@app.task
def add(a, b):
    return a + b


@app.task
def total(numbers):
    return sum(numbers)


@app.task
def note(key, word):
    with redis.Redis.from_url(f"{URL}/2") as client:
        client.rpush(key, word)


@app.task(bind=True, max_retries=2)
def third_time(self):
    if self.request.retries < 2:
        raise self.retry(countdown=0)
    return self.request.retries


@contextlib.contextmanager
def worker():
    command = [sys.executable, "-m", "celery", "-A", "celery_tasks", "worker", "--loglevel", "WARNING"]
    process = subprocess.Popen(command, cwd=os.path.dirname(os.path.abspath(__file__)), stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            raise


def wait_until(condition):
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.05)


def main():
    noted = redis.Redis.from_url(f"{URL}/2", decode_responses=True)
    # Waits for the worker: what is urgent (0) comes first, whenever it was sent.
    for priority in [9, 3, 0, 6]:
        note.apply_async(["order", priority], priority=priority)
    with worker():
        wait_until(lambda: noted.llen("order") == 4)
        assert noted.lrange("order", 0, -1) == ["0", "3", "6", "9"], noted.lrange("order", 0, -1)

        assert add.delay(1, 2).get(timeout=SECONDS) == 3
        assert group(add.s(n, n) for n in range(10))().get(timeout=SECONDS) == [2 * n for n in range(10)]
        assert chord((add.s(n, 1) for n in range(10)), total.s())().get(timeout=SECONDS) == 55
        assert (add.s(1, 1) | add.s(40)).apply_async().get(timeout=SECONDS) == 42
        assert third_time.delay().get(timeout=SECONDS) == 2

        begin = time.monotonic()
        assert add.apply_async([3, 4], countdown=1).get(timeout=SECONDS) == 7
        assert time.monotonic() - begin >= 1

        inspect = app.control.inspect(timeout=10, limit=1)
        (name,) = inspect.ping()
        assert "celery_tasks.add" in inspect.registered()[name]
        assert inspect.active_queues()[name][0]["name"] == "celery"
        assert inspect.stats()[name]["pool"]["max-concurrency"] == 1

        late = add.apply_async([0, 0], countdown=600)
        wait_until(lambda: inspect.scheduled()[name])
        late.revoke()
        wait_until(lambda: inspect.revoked()[name] == [late.id])
    print(f"celery {celery.__version__}: passed")


if __name__ == "__main__":
    main()
