"""What the jobs of rq_jobs.py do."""

import redis


def add(a, b):
    return a + b


def fails():
    raise ValueError("never")


def third_time(port):
    tries = redis.Redis(port=port).incr("tries")
    if tries < 3:
        raise ValueError("not yet")
    return tries
