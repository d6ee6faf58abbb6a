"""redis-py used as applications use it, in RESP2 and RESP3, with and without decoding."""

import os
import threading
import time

import pytest
import redis
from redis.exceptions import ResponseError, WatchError

PORT = int(os.environ["INDELIBLE_PORT"])


def connect(**options):
    return redis.Redis(host="127.0.0.1", port=PORT, socket_timeout=30, **options)


@pytest.fixture(params=[2, 3], ids=["resp2", "resp3"])
def client(request):
    with connect(protocol=request.param, decode_responses=True) as client:
        client.flushall()
        yield client


@pytest.fixture
def other(client):
    with connect(decode_responses=True) as other:
        yield other


def wait_until(condition):
    deadline = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < deadline, "the condition did not come true"
        time.sleep(0.005)


def test_strings(client):
    assert client.set("k", "v") is True
    assert client.get("k") == "v"
    assert client.get("missing") is None
    assert client.set("k", "w", nx=True) is None
    assert client.set("k", "w", xx=True, get=True) == "v"
    assert client.set("k", "x", ex=100) is True
    assert 98 <= client.ttl("k") <= 100
    assert client.getex("k", persist=True) == "x"
    assert client.ttl("k") == -1
    assert client.mset({"a": 1, "b": 2}) is True
    assert client.mget("a", "b", "c") == ["1", "2", None]
    assert client.incr("n", 5) == 5
    assert client.decr("n") == 4
    assert client.incrbyfloat("f", 1.5) == 1.5
    assert client.append("k", "yz") == 3
    assert client.getrange("k", 0, 1) == "xy"
    assert client.setrange("k", 1, "Y") == 3
    assert client.strlen("k") == 3
    assert client.getdel("k") == "xYz"
    assert client.lcs("a", "b") == ""


def test_bytes_and_unicode():
    with connect() as raw:
        raw.flushall()
        everything = bytes(range(256))
        raw.set(everything, everything)
        assert raw.get(everything) == everything
        raw.set("größe", "ü\u20ac\U0001f600")
        assert raw.get("größe").decode() == "ü\u20ac\U0001f600"


def test_large_values(client):
    value = "x" * (8 << 20)
    client.set("large", value)
    assert client.get("large") == value
    client.append("large", "end")
    assert client.getrange("large", -5, -1) == "xxend"
    client.setrange("large", 4 << 20, "MIDDLE")
    assert client.getrange("large", (4 << 20) - 1, (4 << 20) + 6) == "xMIDDLEx"


def test_bits(client):
    assert client.setbit("b", 7, 1) == 0
    assert client.getbit("b", 7) == 1
    assert client.bitcount("b") == 1
    assert client.bitpos("b", 1) == 7
    client.set("c", "\x0f")
    assert client.bitop("OR", "d", "b", "c") == 1
    operations = client.bitfield("f").set("u8", 0, 200).incrby("u8", 0, 100, "SAT").get("u8", 0)
    assert operations.execute() == [0, 255, 255]


def test_hashes(client):
    assert client.hset("h", mapping={"a": 1, "b": "two"}) == 2
    assert client.hgetall("h") == {"a": "1", "b": "two"}
    assert client.hget("h", "b") == "two"
    assert client.hmget("h", "a", "z") == ["1", None]
    assert client.hincrby("h", "a", 2) == 3
    assert client.hincrbyfloat("h", "a", 0.5) == 3.5
    assert client.hexists("h", "a") is True
    assert client.hdel("h", "a", "z") == 1
    assert client.hkeys("h") == ["b"]
    assert client.hvals("h") == ["two"]
    assert client.hlen("h") == 1
    assert client.hstrlen("h", "b") == 3
    assert client.hsetnx("h", "b", "x") == 0
    assert client.hrandfield("h", 1) == ["b"]


def test_lists(client):
    assert client.rpush("l", *range(10)) == 10
    assert client.lpush("l", "first") == 11
    assert client.lrange("l", 0, 2) == ["first", "0", "1"]
    assert client.lpop("l") == "first"
    assert client.rpop("l", 2) == ["9", "8"]
    assert client.lindex("l", 0) == "0"
    assert client.lset("l", 0, "zero") is True
    assert client.linsert("l", "after", "zero", "half") == 9
    assert client.lpos("l", "half") == 1
    assert client.lrem("l", 0, "half") == 1
    assert client.ltrim("l", 0, 1) is True
    assert client.llen("l") == 2
    assert client.lmove("l", "m", "LEFT", "RIGHT") == "zero"
    assert client.lmpop(2, "l", "m", direction="LEFT", count=5) == ["l", ["1"]]


def test_sets(client):
    assert client.sadd("a", 1, 2, 3) == 3
    client.sadd("b", 2, 3, 4)
    assert set(client.sinter("a", "b")) == {"2", "3"}
    assert set(client.sunion("a", "b")) == {"1", "2", "3", "4"}
    assert set(client.sdiff("a", "b")) == {"1"}
    assert client.sintercard(2, ["a", "b"], limit=1) == 1
    assert client.sismember("a", 1)
    assert client.smismember("a", [1, 9]) == [1, 0]
    assert client.smove("a", "b", 1)
    assert client.scard("b") == 4
    assert client.spop("a") in {"2", "3"}
    assert len(client.srandmember("b", -7)) == 7
    assert client.sunionstore("c", "a", "b") == 4
    assert set(client.smembers("c")) == {"1", "2", "3", "4"}


def test_sorted_sets(client):
    assert client.zadd("z", {"a": 1, "b": 2, "c": 3.5}) == 3
    assert client.zscore("z", "c") == 3.5
    pairs = [tuple(pair) for pair in client.zrange("z", 0, -1, withscores=True)]
    assert pairs == [("a", 1.0), ("b", 2.0), ("c", 3.5)]
    assert client.zrank("z", "b") == 1
    assert client.zincrby("z", 10, "a") == 11.0
    assert client.zrevrange("z", 0, 0) == ["a"]
    assert client.zrangebyscore("z", "(2", "+inf") == ["c", "a"]
    assert client.zcount("z", 2, 4) == 2
    assert client.zadd("z", {"a": 5}, gt=True) == 0
    assert client.zmscore("z", ["a", "missing"]) == [11.0, None]
    client.zadd("y", {"a": 1, "d": 4})
    assert client.zunionstore("u", {"z": 1, "y": 2}, aggregate="MAX") == 4
    assert client.zinter(["z", "y"]) == ["a"]
    assert client.zdiff(["z", "y"]) == ["b", "c"]
    assert client.zpopmin("z")[0] in (("b", 2.0), ["b", 2.0], "b")
    assert client.zrem("z", "c") == 1
    client.zadd("lex", dict.fromkeys("abcdef", 0))
    assert client.zrangebylex("lex", "[b", "(d") == ["b", "c"]
    assert client.zremrangebyrank("lex", 0, 3) == 4
    assert client.zrangestore("copy", "lex", 0, -1) == 2


def test_keys_and_expiry(client):
    client.mset({f"key:{i}": i for i in range(500)})
    assert client.dbsize() == 500
    assert {key for key in client.scan_iter(match="key:1*", count=50)} == {
        f"key:{i}" for i in range(500) if str(i).startswith("1")
    }
    assert client.expire("key:1", 1000) is True
    assert client.expire("key:1", 2000, nx=True) is False
    assert client.expiretime("key:1") > time.time()
    assert client.persist("key:1") is True
    assert client.pexpire("key:2", 1) is True
    wait_until(lambda: not client.exists("key:2"))
    assert client.rename("key:3", "renamed") is True
    assert client.copy("renamed", "copied") is True
    assert client.type("copied") == "string"
    assert client.object("encoding", "copied") == "int"
    assert client.touch("renamed", "missing") == 1
    assert client.unlink("renamed", "copied") == 2
    assert client.randomkey().startswith("key:")
    assert client.move("key:4", 5) is True
    assert client.memory_usage("key:5") > 0
    client.rpush("nums", 3, 1, 2)
    assert client.sort("nums", desc=True) == ["3", "2", "1"]
    client.sadd("tags", *range(300))
    assert len(set(client.sscan_iter("tags", count=7))) == 300
    client.hset("map", mapping={f"f{i}": i for i in range(300)})
    assert dict(client.hscan_iter("map", count=7)) == {f"f{i}": str(i) for i in range(300)}
    client.zadd("ranks", {f"m{i}": i for i in range(300)})
    assert dict(client.zscan_iter("ranks", count=7)) == {f"m{i}": float(i) for i in range(300)}


def test_pipelines_and_transactions(client, other):
    with client.pipeline(transaction=False) as pipe:
        for i in range(1000):
            pipe.incr("counter")
        assert pipe.execute() == list(range(1, 1001))
    with client.pipeline() as pipe:
        pipe.set("a", 1).incr("a").lpush("a", "x").get("a")
        replies = pipe.execute(raise_on_error=False)
        assert replies[:2] == [True, 2] and replies[3] == "2"
        assert isinstance(replies[2], ResponseError)
    with client.pipeline() as pipe:
        pipe.watch("a")
        other.set("a", 10)
        pipe.multi()
        pipe.incr("a")
        with pytest.raises(WatchError):
            pipe.execute()

    def double(pipe):
        current = int(pipe.get("a"))
        pipe.multi()
        pipe.set("a", current * 2)

    assert client.transaction(double, "a") == [True]
    assert client.get("a") == "20"


def test_counting_from_many_threads(client):
    def count():
        with connect() as own:
            for _ in range(200):
                own.incr("shared")

    threads = [threading.Thread(target=count) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client.get("shared") == "1600"


def test_blocking(client, other):
    assert client.blpop("nothing", timeout=0.05) is None
    received = []
    consumer = threading.Thread(target=lambda: received.append(client.blpop(["a", "b"], timeout=20)))
    consumer.start()
    wait_until(lambda: other.info("clients")["blocked_clients"] == 1)
    other.rpush("b", "job")
    consumer.join()
    assert [list(item) for item in received] == [["b", "job"]]
    other.rpush("src", "x")
    assert client.blmove("src", "dst", 1) == "x"
    other.zadd("z", {"m": 1.5})
    key, member, score = client.bzpopmin("z", timeout=1)
    assert (key, member, score) == ("z", "m", 1.5)
    assert client.blmpop(0.05, 1, "none", direction="LEFT") is None


def test_pubsub(client, other):
    subscriber = client.pubsub(ignore_subscribe_messages=True)
    subscriber.subscribe("news")
    subscriber.psubscribe("sp*")
    wait_until(lambda: other.pubsub_numsub("news") == [("news", 1)])
    wait_until(lambda: other.pubsub_numpat() == 1)
    assert other.publish("news", "hello") == 1
    assert other.publish("sport", "goal") == 1
    messages = []

    def received():
        message = subscriber.get_message(timeout=0.1)
        if message:
            messages.append((message["type"], message["channel"], message["data"]))
        return len(messages) == 2

    wait_until(received)
    assert messages == [("message", "news", "hello"), ("pmessage", "sport", "goal")]
    subscriber.close()


def test_locks(client):
    # Releasing a lock takes a script in redis-py; taking one and its expiry do not.
    lock = client.lock("resource", timeout=10, blocking_timeout=1, thread_local=False)
    assert lock.acquire() and lock.locked() and lock.owned()
    assert 0 < client.ttl("resource") <= 10
    assert not client.lock("resource", timeout=10).acquire(blocking=False)
    client.delete("resource")
    assert not lock.locked()


def test_errors(client):
    client.set("s", "x")
    with pytest.raises(ResponseError, match="WRONGTYPE|Operation against a key"):
        client.lpush("s", 1)
    with pytest.raises(ResponseError, match="not an integer"):
        client.incr("s")
    with pytest.raises(ResponseError, match="unknown command"):
        client.execute_command("NONSENSE", "a")
    with pytest.raises(ResponseError, match="wrong number of arguments"):
        client.execute_command("GET")


def test_server_commands(client):
    assert client.ping()
    assert client.echo("x") == "x"
    info = client.info()
    assert info["redis_version"].startswith("7.") and info["redis_mode"] == "standalone"
    for field in ("used_memory", "connected_clients", "uptime_in_seconds", "total_commands_processed"):
        assert isinstance(info[field], int)
    assert client.client_setname("tests")
    assert client.client_getname() == "tests"
    assert any(entry["name"] == "tests" for entry in client.client_list())
    assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}
    assert client.config_set("maxmemory-samples", 6)
    assert client.config_get("maxmemory-samples")["maxmemory-samples"] == "6"
    client.config_set("maxmemory-samples", 5)
    assert client.command_count() > 150
    assert "get" in client.command()
    assert isinstance(client.slowlog_get(), list)
    assert abs(client.time()[0] - time.time()) < 10
    assert client.lastsave()
    assert client.dbsize() == 0
    assert client.swapdb(0, 1)
    with connect(db=1, decode_responses=True) as one:
        assert one.set("there", 1) and one.dbsize() == 1
        assert one.flushdb()


def test_connection_pool_and_names(client):
    pool = redis.ConnectionPool(host="127.0.0.1", port=PORT, client_name="pooled", db=3)
    pooled = redis.Redis(connection_pool=pool)
    pooled.set("in", "three")
    assert pooled.client_getname() in (b"pooled", "pooled")
    assert client.get("in") is None
    pooled.flushdb()
    pool.disconnect()


def test_client_side_cache():
    from redis.cache import CacheConfig
    from redis.connection import CacheProxyConnection

    # It asks for 7.4, though what it needs is in 7.0.
    CacheProxyConnection.MIN_ALLOWED_VERSION = "7.0.0"
    with (
        connect(protocol=3, decode_responses=True, cache_config=CacheConfig()) as client,
        connect(decode_responses=True) as other,
    ):
        other.flushall()
        cache = client.get_cache()
        for value in ["1", "2", "3"]:
            other.set("a", value)
            wait_until(lambda: client.get("a") == value)
            assert cache.size == 1
            assert client.get("a") == value
        assert client.mget("a", "b") == ["3", None]
        other.mset({"a": "4", "b": "5"})
        wait_until(lambda: client.mget("a", "b") == ["4", "5"])
        assert client.get("a") == "4"
        other.delete("a")
        wait_until(lambda: client.get("a") is None)
        other.set("a", "6", px=50)
        assert client.get("a") in ["6", None]
        wait_until(lambda: client.get("a") is None)
        other.set("c", "7")
        assert client.get("c") == "7"
        other.flushall()
        wait_until(lambda: client.get("c") is None)
