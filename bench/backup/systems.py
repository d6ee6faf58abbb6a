"""The systems of bench/backup/scenario: how each is loaded, backed up and restored.

Each has `begin` (a server with its data), `backup(number)` (0: all of it), `begin_load`, `end_load`, `lose` (the server is killed, its
directory removed), and `restore(number)` (a server that has everything up to that backup). What they return are the fields of a line.
"""
import atexit
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

import sitting
from sitting import measured, run

VALUE_BYTES = 1000
# What an overwritten or new record of the load takes.
WRITES = 0.5


class System:
    def __init__(self, options, data, backups):
        self.options, self.data, self.backups = options, os.path.join(data, "data"), backups
        self.restored = os.path.join(data, "restored")

    def rate(self):
        """Requests a second; 0: as fast as they are answered."""
        return 0

    def timed_backup(self, number):
        before, begun_s = sitting.bytes_in(self.backups), time.monotonic()
        said = self.backup(number) or {}
        seconds = time.monotonic() - begun_s
        return {"name": f"TB{number}", "seconds": round(seconds, 3), "bytes": sitting.bytes_in(self.backups) - before, **said}


def copy(source, to):
    run("cp", source, to)
    run("sync", to)


class KeyValue(System):
    """A server that speaks RESP, loaded by `indelible-bench client`."""

    def start(self, directory):
        return sitting.start(self.options, self.words(), directory)

    def begin(self):
        self.keys = int(self.options.megabytes * 1e6) // (VALUE_BYTES + sitting.KEY_BYTES)
        self.server = self.start(self.data)
        measured.fill(self.options, self.server, keys=self.keys, value_bytes=VALUE_BYTES)
        self.server.rest()
        self.digest = sitting.digest_of(self.server)
        self.connection = measured.Connection(self.server.port)

    def rate(self):
        return self.options.rate

    def begin_load(self, seconds):
        self.steps = os.path.join(self.options.work, "steps.csv")
        # A fifth of the keys are not there yet: the database grows.
        return measured.begin_load(
            self.options, self.server.port, "run", keys=self.keys * 5 // 4, value_bytes=VALUE_BYTES, reads=1 - WRITES, seconds=seconds,
            connections=50, rate=self.options.rate, steps=self.steps)

    def end_load(self, load):
        """What the load has counted; and for each second: requests, the largest p99 of its tenths and the longest in microseconds."""
        counted = measured.end_load(load)
        if counted["errors"] or counted["broken"]:
            sys.exit(f"{self.name}: {counted}")
        seconds = {}
        lines = [list(map(int, line.split(","))) for line in open(self.steps).read().splitlines()[1:]]
        for at_ms, answered, _, p99_us, max_us in lines:
            second = seconds.setdefault((at_ms - lines[0][0]) // 1000, [0, 0, 0])
            seconds[(at_ms - lines[0][0]) // 1000] = [second[0] + answered, max(second[1], p99_us), max(second[2], max_us)]
        shown = {name: counted[name] for name in ("per_second", "reads", "writes")}
        return shown, [[second, *figures] for second, figures in sorted(seconds.items())]

    def lose(self):
        self.server.kill()
        shutil.rmtree(self.data)

    def restore(self, number):
        begun_s = time.monotonic()
        self.bring_back(number)
        files_s = time.monotonic() - begun_s
        server = self.start(self.restored)
        seconds = time.monotonic() - begun_s
        keys = int(server.call("DBSIZE"))
        if number == 0 and sitting.digest_of(server) != self.digest:
            sys.exit(f"{self.name}: what was restored is not what was there")
        server.kill()
        shutil.rmtree(self.restored)
        return {"name": f"TR{number}", "seconds": round(seconds, 3), "files_s": round(files_s, 3), "keys": keys}


class Indelible(KeyValue):
    """Marks in the log, which goes to a `file:` archive all the while."""

    name = "indelible"

    def words(self):
        return sitting.indelible(self.options, "--appendfsync", "everysec", "--archive-compression", self.options.compression)

    def backup(self, number):
        """A backup is there when it is in the archive; the reply is that of BACKUP CREATE."""
        if number == 0:
            self.url, self.marks = f"file://{self.backups}", []
            sitting.ask(self.connection, "CONFIG", "SET", "archive", self.url)
            sitting.wait_until("the archive has all data", lambda: sitting.info_of(self.connection, "backup")["archive_state"] == "streaming")
        lsn, reply_ms = sitting.mark(self.connection, f"TB{number}")
        sitting.wait_until_archived(self.server, lsn)
        self.marks.append(lsn)
        return {"reply_ms": reply_ms}

    def bring_back(self, number):
        sitting.restore(self.options, self.url, ["--at", str(self.marks[number])], self.restored)


class RedisRdb(KeyValue):
    """BGSAVE, and a copy of the dump: each backup is a whole one."""

    name = "redis-rdb"

    def program(self):
        return self.options.redis

    def words(self):
        return [self.program(), "--save", "", "--appendonly", "no", "--daemonize", "no", "--enable-debug-command", "yes"]

    def backup(self, number):
        begun_s = time.monotonic()
        sitting.ask(self.connection, "BGSAVE")
        info = lambda: sitting.info_of(self.connection, "persistence")
        sitting.wait_until("BGSAVE", lambda: info()["rdb_bgsave_in_progress"] == "0")
        if info()["rdb_last_bgsave_status"] != "ok":
            sys.exit("BGSAVE has failed")
        dump_s = time.monotonic() - begun_s
        copy(os.path.join(self.data, "dump.rdb"), os.path.join(self.backups, f"{number}.rdb"))
        return {"dump_s": round(dump_s, 3)}

    def bring_back(self, number):
        os.makedirs(self.restored)
        copy(os.path.join(self.backups, f"{number}.rdb"), os.path.join(self.restored, "dump.rdb"))


class Redis82Rdb(RedisRdb):
    name = "redis82-rdb"

    def program(self):
        return self.options.redis82


class RedisAof(RedisRdb):
    """`appendonlydir`, copied as Redis' documentation says: no rewrite meanwhile. Its files are only appended to, so an increment is
    what was appended since, and the files of a rewrite."""

    name = "redis-aof"

    def words(self):
        return [self.program(), "--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--daemonize", "no",
                "--enable-debug-command", "yes"]

    def backup(self, number):
        if number == 0:
            self.sizes = []
        sitting.ask(self.connection, "CONFIG", "SET", "auto-aof-rewrite-percentage", "0")
        info = lambda: sitting.info_of(self.connection, "persistence")
        sitting.wait_until("the rewrite", lambda: info()["aof_rewrite_in_progress"] == "0" and info()["aof_rewrite_scheduled"] == "0")
        place, sizes = os.path.join(self.data, "appendonlydir"), {}
        for name in sorted(os.listdir(place)):
            source = os.path.join(place, name)
            # The manifest is replaced by a rewrite: one for each backup.
            to = os.path.join(self.backups, f"{number}.manifest" if name.endswith(".manifest") else name)
            sizes[name] = os.path.getsize(source)
            append(source, to, sizes[name])
        self.sizes.append(sizes)
        sitting.ask(self.connection, "CONFIG", "SET", "auto-aof-rewrite-percentage", "100")
        return {}

    def bring_back(self, number):
        into = os.path.join(self.restored, "appendonlydir")
        os.makedirs(into)
        for name, size in self.sizes[number].items():
            source = os.path.join(self.backups, f"{number}.manifest" if name.endswith(".manifest") else name)
            to = os.path.join(into, name)
            run("cp", source, to)
            os.truncate(to, size)
            run("sync", to)


class Redis82Aof(RedisAof):
    name = "redis82-aof"

    def program(self):
        return self.options.redis82


def append(source, to, size):
    """Copies what a file has up to a size and the copy has not."""
    there = os.path.getsize(to) if os.path.exists(to) else 0
    if there < size:
        run("dd", f"if={source}", f"of={to}", "bs=1M", "conv=notrunc,fsync", "iflag=skip_bytes,count_bytes", "oflag=seek_bytes",
            f"skip={there}", f"seek={there}", f"count={size - there}")


class MariaDb(System):
    """sysbench's oltp_read_write, as in the paper. What the subclasses share: a server with its data."""

    TABLES, ROW_BYTES = 4, 240
    needs = ["mariadbd", "mariadb-install-db", "mariadb", "sysbench"]

    def begin(self):
        self.rows = int(self.options.megabytes * 1e6) // self.TABLES // self.ROW_BYTES
        # The path of a socket may have 107 bytes.
        self.sockets = tempfile.mkdtemp(prefix="indelible-")
        atexit.register(shutil.rmtree, self.sockets, ignore_errors=True)
        self.socket = os.path.join(self.sockets, "s")
        filled = os.path.join(self.options.work, "mariadb-filled")
        empty = os.path.join(self.options.work, "mariadb-empty")
        if not os.path.exists(empty):
            run("mariadb-install-db", "--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db", "--user=root",
                f"--datadir={empty}", f"--tmpdir={self.options.work}")
        if not os.path.exists(filled):
            run("cp", "-r", empty, filled + "-unfinished")
            self.start(filled + "-unfinished", "--skip-log-bin", "--innodb-flush-log-at-trx-commit=0")
            self.sql("CREATE DATABASE shop")
            run(*self.sysbench("--threads=2", "prepare"))
            self.stop()
            os.rename(filled + "-unfinished", filled)
        run("cp", "-r", filled, self.data)
        sitting.synced(self.data)
        self.start(self.data, "--log-bin=binlog", "--sync-binlog=1")
        self.before = self.checksum()

    def start(self, directory, *words):
        pool_mb = max(256, int(self.options.megabytes))
        pinned = ["taskset", "-c", self.options.server_processors] if self.options.server_processors else []
        log = open(os.path.join(self.options.work, "mariadb.txt"), "ab")
        self.process = sitting.begin(
            [*pinned, "mariadbd", "--no-defaults", "--user=root", "--skip-networking", f"--datadir={directory}", f"--socket={self.socket}",
             f"--tmpdir={self.options.work}", f"--pid-file={self.sockets}/pid", "--performance-schema=OFF",
             f"--innodb-buffer-pool-size={pool_mb}M", *words], stdout=log, stderr=log)
        log.close()

        def answers():
            if self.process.poll() is not None:
                sys.exit("mariadbd has ended: " + open(os.path.join(self.options.work, "mariadb.txt")).read()[-2000:])
            with socket.socket(socket.AF_UNIX) as probe:
                return probe.connect_ex(self.socket) == 0

        sitting.wait_until("mariadbd answers", answers, every=0.05)

    def stop(self):
        self.process.terminate()
        self.process.wait()

    def client(self):
        return ["mariadb", "--no-defaults", "-u", "root", f"--socket={self.socket}"]

    def sql(self, text):
        return run(*self.client(), "-N", "-B", "-e", text)

    def checksum(self):
        return self.sql("CHECKSUM TABLE " + ", ".join(f"shop.sbtest{number}" for number in range(1, self.TABLES + 1)))

    def sysbench(self, *more):
        return ["taskset", "-c", str(os.cpu_count() - 1), "sysbench", "oltp_read_write", f"--tables={self.TABLES}", f"--table-size={self.rows}",
                f"--mysql-socket={self.socket}", "--mysql-user=root", "--mysql-db=shop", "--mysql-ignore-errors=1213,1020,1205", *more]

    def begin_load(self, seconds):
        words = self.sysbench("--threads=16", f"--time={seconds:.0f}", "--report-interval=1", "--percentile=99", "run")
        return sitting.begin(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    def end_load(self, load):
        """As KeyValue's; requests are transactions, and of each second the longest is not known."""
        out = load.communicate()[0]
        if load.returncode:
            sys.exit(f"sysbench: {out[-2000:]}")
        seconds = re.findall(r"\[ (\d+)s \].*? tps: ([\d.]+) .*?lat \(ms,99%\): ([\d.]+)", out)
        course = [[int(second) - 1, round(float(tps)), round(float(p99_ms) * 1000), None] for second, tps, p99_ms in seconds]
        per_second = float(re.search(r"transactions: .*\(([\d.]+) per sec", out)[1])
        p99_ms, max_ms = (float(re.search(rf"{what}: *([\d.]+)", out)[1]) for what in ("99th percentile", "max"))
        return {"per_second": round(per_second), "transactions": {"p99_us": p99_ms * 1000, "max_us": max_ms * 1000}}, course

    def lose(self):
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.data)

    def end(self):
        """After the last restore."""
        self.process.kill()
        self.process.wait()
        shutil.rmtree(self.restored, ignore_errors=True)
        shutil.rmtree(self.sockets, ignore_errors=True)

    def compare(self):
        if self.checksum() != self.before:
            sys.exit(f"{self.name}: what was restored is not what was there")


class MariaDbDump(MariaDb):
    """mariadb-dump (mysqldump), and for an increment the binary log since. They are restored one after the other, each where the one
    before has ended: the times add up, as in the paper."""

    name = "mariadb-dump"
    needs = [*MariaDb.needs, "mariadb-dump", "mariadb-binlog"]

    def backup(self, number):
        if number == 0:
            with open(os.path.join(self.backups, "dump.sql"), "w") as out:
                run("mariadb-dump", "--no-defaults", "-u", "root", f"--socket={self.socket}", "--single-transaction", "--flush-logs",
                    "--master-data=2", "--databases", "shop", stdout=out)
                os.fsync(out.fileno())
            # No client writes yet, so what comes is all in this file and behind.
            self.first, self.copied = self.sql("SHOW MASTER STATUS").split()[0], [[]]
            self.seconds = 0
            return
        self.sql("FLUSH BINARY LOGS")
        ended = [line.split("\t")[0] for line in self.sql("SHOW BINARY LOGS").splitlines()][:-1]
        known = {name for names in self.copied for name in names}
        new = [name for name in ended if name >= self.first and name not in known]
        for name in new:
            copy(os.path.join(self.data, name), os.path.join(self.backups, name))
        self.copied.append(new)

    def restore(self, number):
        if number == 0:
            run("cp", "-r", os.path.join(self.options.work, "mariadb-empty"), self.restored)
            # Nothing is logged twice, and no transaction waits for the disk, while it is restored.
            self.start(self.restored, "--skip-log-bin", "--innodb-flush-log-at-trx-commit=2")
        begun_s = time.monotonic()
        if number == 0:
            with open(os.path.join(self.backups, "dump.sql")) as dump:
                run(*self.client(), stdin=dump)
        elif self.copied[number]:
            files = [os.path.join(self.backups, name) for name in self.copied[number]]
            reader = sitting.begin(["mariadb-binlog", "--no-defaults", *files], stdout=subprocess.PIPE)
            run(*self.client(), "--binary-mode", stdin=reader.stdout)
            reader.stdout.close()
            if reader.wait():
                sys.exit("mariadb-binlog has failed")
        self.seconds += time.monotonic() - begun_s
        if number == 0:
            self.compare()
        if number == 3:
            self.end()
        return {"name": f"TR{number}", "seconds": round(self.seconds, 3)}


class MariaDbBackup(MariaDb):
    """mariadb-backup, which is Xtrabackup's: all files, and for an increment the pages that have changed since the one before."""

    name = "mariadb-backup"
    needs = [*MariaDb.needs, "mariadb-backup"]

    def place(self, number):
        return os.path.join(self.backups, str(number))

    def backup(self, number):
        since = [f"--incremental-basedir={self.place(number - 1)}"] if number else []
        run("mariadb-backup", "--no-defaults", "--backup", "--user=root", f"--socket={self.socket}", f"--datadir={self.data}",
            f"--target-dir={self.place(number)}", *since)
        sitting.synced(self.backups)

    def restore(self, number):
        """Copied back and prepared there, so that the backup stays as it is: to prepare an increment writes to its log."""
        begun_s = time.monotonic()
        run("cp", "-r", self.place(0), self.restored)
        run("mariadb-backup", "--no-defaults", "--prepare", f"--target-dir={self.restored}")
        increment = f"{self.restored}-increment"
        for before in range(1, number + 1):
            run("cp", "-r", self.place(before), increment)
            run("mariadb-backup", "--no-defaults", "--prepare", f"--target-dir={self.restored}", f"--incremental-dir={increment}")
            shutil.rmtree(increment)
        sitting.synced(self.restored)
        files_s = time.monotonic() - begun_s
        self.start(self.restored, "--skip-log-bin")
        seconds = time.monotonic() - begun_s
        if number == 0:
            self.compare()
        if number == 3:
            self.end()
        else:
            self.process.kill()
            self.process.wait()
            shutil.rmtree(self.restored)
        return {"name": f"TR{number}", "seconds": round(seconds, 3), "files_s": round(files_s, 3)}


ALL = {system.name: system for system in (Indelible, RedisRdb, Redis82Rdb, RedisAof, Redis82Aof, MariaDbDump, MariaDbBackup)}
