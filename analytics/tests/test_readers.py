"""What DuckDB and pyarrow read of an export, compared with what the server says that it has.

The environment has PROGRAM, the path of indelible-parquet, and may have INDELIBLE, that of a server to be tested
next to redis-server. Each way to a dump is taken: a file, redis-cli through a pipe, and a connection.
"""

import os
import socket
import subprocess
import time
from datetime import datetime, timezone

import duckdb
import pyarrow.parquet as parquet
import pytest
import redis

PROGRAM = os.environ["PROGRAM"]
SERVERS = ["redis-server"] + [path for path in [os.environ.get("INDELIBLE")] if path]
EXPIRES_AT_MS = 4_000_000_000_123
ALL_BYTES = bytes(range(256))


def start(words, directory):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [*words, "--port", str(port), "--dir", str(directory), "--save", ""]
    with open(directory / "log.txt", "wb") as log:
        process = subprocess.Popen(words, stdout=log, stderr=log)
    return process, port


@pytest.fixture(params=SERVERS, ids=os.path.basename, scope="module")
def server(request, tmp_path_factory):
    directory = tmp_path_factory.mktemp("server")
    is_redis = request.param == "redis-server"
    process, port = start([request.param] if is_redis else [request.param, "server"], directory)
    client = redis.Redis(port=port)
    for _ in range(200):
        try:
            client.ping()
            break
        except redis.exceptions.RedisError:
            time.sleep(0.05)
    fill(client)
    yield port, directory
    process.kill()
    process.wait()


def fill(client):
    client.set(b"text", "grüße")
    client.set(b"number", 12345)
    client.set(ALL_BYTES, ALL_BYTES, pxat=EXPIRES_AT_MS)
    client.set(b"empty", b"")
    client.set(b"long", b"x" * 300_000)
    client.rpush(b"list", b"b", b"a", b"b", b"", b"7")
    client.rpush(b"long list", *range(3000))
    client.sadd(b"set", b"m", ALL_BYTES)
    client.sadd(b"numbers", *range(100))
    client.zadd(b"zset", {b"low": "-inf", b"third": 1 / 3, b"high": "inf"})
    client.hset(b"user:1", mapping={b"name": b"Ada", b"born": 1815, b"city": b"London"})
    client.hset(b"user:2", mapping={b"name": b"Alan"})
    client.hset(b"long hash", mapping={b"field%d" % number: ALL_BYTES for number in range(1000)})
    client.execute_command("SELECT", 5)
    client.set(b"number", -7)
    client.execute_command("SELECT", 0)


def export(port, directory, out, way):
    """Exports by one of the ways, and returns what is read back with pyarrow."""
    words = [PROGRAM, None, str(out), "--fields", "name,born,nowhere"]
    if way == "pipe":
        dump = subprocess.Popen(["redis-cli", "-p", str(port), "--rdb", "-"], stdout=subprocess.PIPE)
        words[1] = "-"
        subprocess.run(words, stdin=dump.stdout, check=True)
        dump.stdout.close()
        assert dump.wait() == 0
        return
    if way == "file":
        redis.Redis(port=port).save()
    words[1] = {"file": str(directory / "dump.rdb"), "address": f"localhost:{port}", "url": f"redis://127.0.0.1:{port}"}[way]
    subprocess.run(words, check=True)


@pytest.fixture(params=["file", "pipe", "address", "url"], scope="module")
def out(request, server, tmp_path_factory):
    port, directory = server
    out = tmp_path_factory.mktemp("export") / "out"
    export(port, directory, out, request.param)
    return out


def rows(out, name):
    """Rows as pyarrow reads them, by database and key."""
    table = parquet.read_table(out / f"{name}.parquet").to_pylist()
    return {(row["database"], row["key"]): row for row in table}


def test_pyarrow_reads_every_type(out):
    strings = rows(out, "strings")
    assert {place: row["value"] for place, row in strings.items()} == {
        (0, b"text"): "grüße".encode(),
        (0, b"number"): b"12345",
        (0, ALL_BYTES): ALL_BYTES,
        (0, b"empty"): b"",
        (0, b"long"): b"x" * 300_000,
        (5, b"number"): b"-7",
    }
    expires_at = strings[0, ALL_BYTES]["expires_at"]
    assert expires_at == datetime.fromtimestamp(EXPIRES_AT_MS // 1000, timezone.utc).replace(microsecond=123_000)
    assert strings[0, b"text"]["expires_at"] is None
    assert {row["part"] for row in strings.values()} == {0}
    lists = rows(out, "lists")
    assert lists[0, b"list"]["items"] == [b"b", b"a", b"b", b"", b"7"]
    assert lists[0, b"long list"]["items"] == [b"%d" % number for number in range(3000)]
    sets = rows(out, "sets")
    assert sorted(sets[0, b"set"]["members"]) == [ALL_BYTES, b"m"]
    assert sorted(sets[0, b"numbers"]["members"], key=int) == [b"%d" % number for number in range(100)]
    members = rows(out, "zsets")[0, b"zset"]["members"]
    assert {member["member"]: member["score"] for member in members} == {
        b"low": float("-inf"),
        b"third": 1 / 3,
        b"high": float("inf"),
    }
    hashes = rows(out, "hashes")
    user = hashes[0, b"user:1"]
    assert (user["name"], user["born"], user["nowhere"], user["fields"]) == (b"Ada", b"1815", None, [(b"city", b"London")])
    user = hashes[0, b"user:2"]
    assert (user["name"], user["born"], user["fields"]) == (b"Alan", None, [])
    assert dict(hashes[0, b"long hash"]["fields"]) == {b"field%d" % number: ALL_BYTES for number in range(1000)}


def test_the_metadata_says_what_was_exported(out):
    facts = parquet.read_metadata(out / "hashes.parquet").metadata
    assert facts[b"indelible-total-keys"] == b"14"
    assert facts[b"indelible-keys"] == b"3"
    assert b"redis-ver" in facts


def query(out, text):
    """As docs/analytics.md has them; `OUT` is the directory."""
    return duckdb.sql(text.replace("OUT", str(out))).fetchall()


def test_duckdb_reads_every_type(out):
    assert query(out, "SELECT sum(CAST(decode(value) AS BIGINT)) FROM 'OUT/strings.parquet' WHERE key = 'number'") == [
        (12345 - 7,)
    ]
    assert query(out, "SELECT database, key, value, epoch_ms(expires_at) FROM 'OUT/strings.parquet' WHERE expires_at IS NOT NULL") == [
        (0, ALL_BYTES, ALL_BYTES, EXPIRES_AT_MS)
    ]
    assert query(out, "SELECT len(items), decode(items[1]) FROM 'OUT/lists.parquet' ORDER BY 1") == [(5, "b"), (3000, "0")]
    assert query(out, "SELECT count(*) FROM 'OUT/strings.parquet' WHERE decode(key, 'replace') LIKE 'num%'") == [(2,)]
    items = "(SELECT key, unnest(items) AS item FROM 'OUT/lists.parquet')"
    assert query(out, f"SELECT sum(CAST(decode(item) AS BIGINT)) FROM {items} WHERE key = 'long list'") == [(2999 * 1500,)]
    assert query(out, "SELECT sum(len(members)) FROM 'OUT/sets.parquet'") == [(102,)]
    members = "(SELECT unnest(members, recursive := true) FROM 'OUT/zsets.parquet')"
    assert query(out, f"SELECT decode(member), score FROM {members} ORDER BY score") == [
        ("low", float("-inf")),
        ("third", 1 / 3),
        ("high", float("inf")),
    ]
    users = "FROM 'OUT/hashes.parquet' WHERE name IS NOT NULL ORDER BY key"
    assert query(out, f"SELECT decode(name), CAST(decode(born) AS INTEGER), nowhere {users}") == [("Ada", 1815, None), ("Alan", None, None)]
    assert query(out, f"SELECT decode(fields['city']) {users}") == [("London",), (None,)]
    assert query(out, "SELECT max(cardinality(fields)) FROM 'OUT/hashes.parquet'") == [(1000,)]


def test_a_time_that_no_calendar_has_hides_nothing_else(server, tmp_path):
    port, directory = server
    client = redis.Redis(port=port, db=9)
    client.set("far", "1", pxat=9_000_000_000_000_000)
    out = tmp_path / "out"
    export(port, directory, out, "address")
    client.flushdb()
    assert query(out, "SELECT decode(value) FROM 'OUT/strings.parquet' WHERE database = 9") == [("1",)]
    column = parquet.read_table(out / "strings.parquet", filters=[("database", "=", 9)]).column("expires_at")
    assert column.cast("int64").to_pylist() == [9_000_000_000_000_000]


def test_a_stream_is_refused_and_nothing_is_there(tmp_path):
    process, port = start(["redis-server"], tmp_path)
    try:
        client = redis.Redis(port=port)
        for _ in range(200):
            try:
                client.xadd("stream", {"a": "b"})
                break
            except redis.exceptions.ConnectionError:
                time.sleep(0.05)
        client.set("a", "1")
        out = tmp_path / "out"
        refused = subprocess.run([PROGRAM, f"localhost:{port}", out], capture_output=True, text=True)
        assert refused.returncode == 1 and 'the key "stream" of database 0 is of type stream' in refused.stderr
        assert not [path for path in tmp_path.iterdir() if path.name.startswith("out")]
        taken = subprocess.run([PROGRAM, f"localhost:{port}", out, "--skip-unknown"], capture_output=True, text=True)
        assert taken.returncode == 0 and "left out: 1 keys of type stream" in taken.stdout
        assert [row["key"] for row in parquet.read_table(out / "strings.parquet").to_pylist()] == [b"a"]
        client.config_set("requirepass", "secret word")
        no_password = subprocess.run([PROGRAM, f"localhost:{port}", tmp_path / "2"], capture_output=True, text=True)
        assert no_password.returncode == 1 and "NOAUTH" in no_password.stderr
        words = [PROGRAM, f"localhost:{port}", tmp_path / "3", "--skip-unknown"]
        subprocess.run(words, check=True, env={**os.environ, "REDISCLI_AUTH": "secret word"})
        words[1:3] = [f"redis://:secret%20word@localhost:{port}", tmp_path / "4"]
        subprocess.run(words, check=True)
    finally:
        process.kill()
        process.wait()
