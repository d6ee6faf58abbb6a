"""RQ: results, failures, retries, dependencies, schedules, and what a worker has left of a job."""

import datetime
import importlib.metadata
import logging
import os

import redis
import rq
from rq.job import JobStatus

import rq_tasks

# The failures of jobs below are meant.
logging.getLogger("rq").setLevel(logging.CRITICAL)
PORT = int(os.environ["INDELIBLE_PORT"])
connection = redis.Redis(port=PORT)
queue = rq.Queue("jobs", connection=connection)


def work():
    """Does all that there is, in this process."""
    worker = rq.SimpleWorker([queue], connection=connection)
    worker.work(burst=True, with_scheduler=False, logging_level=logging.CRITICAL)


added = [queue.enqueue(rq_tasks.add, number, 1) for number in range(30)]
failing = queue.enqueue(rq_tasks.fails)
first = queue.enqueue(rq_tasks.add, 1, 2)
second = queue.enqueue(rq_tasks.add, 3, 4, depends_on=first)
retried = queue.enqueue(rq_tasks.third_time, PORT, retry=rq.Retry(max=3))
work()
assert [job.return_value() for job in added] == [number + 1 for number in range(30)]
assert failing.get_status() == JobStatus.FAILED
assert "never" in failing.latest_result().exc_string
assert second.return_value() == 7
assert retried.return_value() == 3

# Results are entries of a stream, the last ones of which are kept.
again = queue.enqueue(rq_tasks.add, 5, 5)
work()
for _ in range(3):
    queue.enqueue_job(again)
    work()
assert [result.return_value for result in again.results()] == [10] * 4

later = queue.enqueue_in(datetime.timedelta(seconds=1), rq_tasks.add, 8, 8)
assert later.get_status() == JobStatus.SCHEDULED
assert queue.scheduled_job_registry.count == 1
assert queue.failed_job_registry.requeue(failing.id).get_status() == JobStatus.QUEUED
assert rq.Worker.count(connection=connection) == 0
print(f"RQ {importlib.metadata.version('rq')}: {len(added)} jobs, results in streams, a failure, retries, dependencies")
