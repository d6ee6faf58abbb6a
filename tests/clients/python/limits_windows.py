"""limits: each of its strategies, which are Lua scripts, with the server as its storage."""

import importlib.metadata
import os

import limits
from limits.storage import storage_from_string
from limits.strategies import STRATEGIES

storage = storage_from_string(f"redis://127.0.0.1:{os.environ['INDELIBLE_PORT']}/0")
assert storage.check()
item = limits.parse("10 per year")
for name, strategy in STRATEGIES.items():
    limiter = strategy(storage)
    assert limiter.test(item, name)
    taken = [limiter.hit(item, name) for _ in range(12)]
    assert taken == [True] * 10 + [False] * 2, (name, taken)
    assert not limiter.test(item, name)
    assert limiter.get_window_stats(item, name).remaining == 0
    limiter.clear(item, name)
    assert limiter.hit(item, name, cost=4)
    assert limiter.get_window_stats(item, name).remaining == 6
    assert not limiter.hit(item, name, cost=7)
assert storage.reset() is not None
print(f"limits {importlib.metadata.version('limits')}: {', '.join(STRATEGIES)} passed")
