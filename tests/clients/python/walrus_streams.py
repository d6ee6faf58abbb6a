"""walrus: streams, a consumer group, claims, a time series, and the lock and the limit that come with it."""

import datetime
import importlib.metadata
import os

import walrus

db = walrus.Database(port=int(os.environ["INDELIBLE_PORT"]))


def numbers(entries):
    return [int(fields[b"n"]) for _, fields in entries]


stream = db.Stream("events")
ids = [stream.add({"n": number}) for number in range(20)]
assert len(stream) == 20 and stream.info()["length"] == 20
assert numbers(stream[ids[2] : ids[4]]) == [2, 3, 4] and numbers(stream.revrange(count=2)) == [19, 18]
assert numbers(stream.read(count=2, last_id=ids[10])) == [11, 12]
del stream[ids[0]]
assert stream.trim(10, approximate=False) == 9 and numbers(stream) == list(range(10, 20))

group = db.consumer_group("workers", ["events"], consumer="one")
group.create()
group.set_id("0")
taken = group.events.read(count=4)
assert numbers(taken) == [10, 11, 12, 13]
assert group.events.ack(taken[0][0], taken[1][0]) == 2
other = group.consumer("two")
assert numbers(other.events.claim(taken[2][0])) == [12]
assert {entry["consumer"] for entry in group.events.pending()} == {b"one", b"two"}
assert numbers(group.events.autoclaim("two", 0)[1]) == [12, 13]
assert {consumer["name"]: consumer["pending"] for consumer in group.events.consumers_info()} == {b"one": 0, b"two": 2}
[(_, rest)] = other.read()
assert numbers(rest) == list(range(14, 20))
assert other.events.delete_consumer() == 8
group.destroy()

series = db.time_series("temperatures", ["inside", "outside"])
series.create()
series.set_id("0")
start = datetime.datetime(2026, 1, 1)
for hour in range(10):
    series.inside.add({"c": 20 + hour}, id=start + datetime.timedelta(hours=hour))
    series.outside.add({"c": hour}, id=start + datetime.timedelta(hours=hour, minutes=30))
read = series.read()
assert [message.stream for message in read] == ["inside", "outside"] * 10
assert [message.timestamp for message in read] == [start + datetime.timedelta(minutes=30 * half) for half in range(20)]
assert [message.data for message in series.inside[start : start + datetime.timedelta(hours=1)]] == [{"c": "20"}, {"c": "21"}]
assert series.read() in (None, [])

with db.lock("critical", ttl=5000):
    assert not db.lock("critical", ttl=5000).acquire(block=False)
limit = db.rate_limit("requests", limit=2, per=60)
assert [limit.limit("me") for _ in range(3)] == [False, False, True]
print(f"walrus {importlib.metadata.version('walrus')}: a stream, a group, claims, a time series, a lock, a limit")
