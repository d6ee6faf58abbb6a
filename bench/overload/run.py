#!/usr/bin/env python3
"""What one client can do to a server and to its other clients, beside redis-server.

    bench/overload/run.py target/release/indelible results/overload [--rounds 5]

Each scenario has a fresh server with the same settings. Peak is the largest resident set (VmHWM,
reset before the scenario) less the resident set before; stall is the longest that another client,
which sends one PING after the other from a process of its own, waited for a reply. Every round of
every scenario is in raw.txt; the table has the median, and in brackets the largest.
"""

import argparse
import multiprocessing
import os
import socket
import statistics
import subprocess
import tempfile
import time

MB = 1 << 20


def encode(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        word = word if isinstance(word, bytes) else str(word).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


class Client:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.file = self.socket.makefile("rb")

    def send(self, data):
        try:
            self.socket.sendall(data)
            return True
        except OSError:
            return False

    def reply(self):
        """The first line of a reply, its elements skipped; None at the end."""
        try:
            line = self.file.readline()
            if not line:
                return None
            if line[:1] == b"$" and line[:2] != b"$-":
                self.file.read(int(line[1:]) + 2)
            elif line[:1] == b"*":
                for _ in range(max(0, int(line[1:]))):
                    if self.reply() is None:
                        return None
            return line
        except OSError:
            return None

    def call(self, *words):
        self.send(encode(*words))
        return self.reply()

    def send_unread(self, data, seconds):
        """Sends as often as the server takes it, reading nothing."""
        self.socket.settimeout(0.2)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            try:
                self.socket.send(data)
            except TimeoutError:
                pass
            except OSError:
                return


def probe(port, password, stop, longest):
    client = Client(port)
    if password:
        client.call("AUTH", password)
    while not stop.is_set():
        begun = time.monotonic()
        if client.call("PING") is None:
            return
        longest.value = max(longest.value, time.monotonic() - begun)
        time.sleep(0.0005)


def before_auth(port):
    yield
    Client(port).send_unread(b"GET a\r\n" * 1000, 8)


def publish(port):
    listener, speaker = Client(port), Client(port)
    listener.send(encode("PSUBSCRIBE", *["c" + "*" * n for n in range(2000)]))
    for _ in range(2000):
        listener.reply()
    yield
    speaker.call("PUBLISH", "c", b"x" * MB)


def mget(port):
    client = Client(port)
    client.call("SET", "s", b"x" * MB)
    yield
    client.send(encode("MGET", *["s"] * 1500))
    time.sleep(3)


def repeated_members(port):
    client = Client(port)
    client.call("SADD", "s", *["member:%d" % n for n in range(1000)])
    yield
    client.send(encode("SRANDMEMBER", "s", -50_000_000))
    time.sleep(1)
    # Another one sees when the server is back.
    Client(port).call("PING")


def lcs(port):
    client = Client(port)
    client.call("SET", "a", b"ab" * 16_000)
    client.call("SET", "b", b"ba" * 16_000)
    yield
    client.call("LCS", "a", "b", "LEN")


def large_requests(port):
    request = encode("DEL", *["k"] * 1_000_000)
    clients = []
    yield
    for _ in range(20):
        client = Client(port)
        client.send(request)
        client.reply()
        clients.append(client)
    time.sleep(1)


def many_keys(port):
    client = Client(port)
    keys = ["key:%d" % n for n in range(40_000)]
    watch, wait = encode("WATCH", *keys), encode("BLPOP", *keys, 0.1)
    yield
    client.send(watch)
    client.reply()
    client.call("UNWATCH")
    client.send(wait)
    client.reply()


LIMIT = ["--client-output-buffer-limit", "normal", "10mb", "0", "0"]
SCENARIOS = [
    ("2", "`GET a` before AUTH, 8 s, replies unread", before_auth, ["--requirepass", "x"]),
    ("12", "PUBLISH of 1 MB to 2,000 patterns of one client", publish, []),
    ("13", "MGET of 1,500 times 1 MB, limit 10 MB", mget, LIMIT),
    ("13", "SRANDMEMBER of -50,000,000, limit 10 MB", repeated_members, LIMIT),
    ("14", "LCS of two strings of 32 kB", lcs, []),
    ("15", "20 clients, each one request of a million arguments", large_requests, []),
    ("16", "WATCH, UNWATCH and BLPOP of 40,000 keys", many_keys, []),
]


def status(pid, field):
    with open(f"/proc/{pid}/status") as lines:
        return next(int(line.split()[1]) for line in lines if line.startswith(field)) * 1024


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def measure(command, scenario, options):
    port = free_port()
    with tempfile.TemporaryDirectory() as directory:
        line = [*command, "--port", str(port), "--dir", directory, *options]
        server = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while True:
                try:
                    Client(port)
                    break
                except OSError:
                    time.sleep(0.02)
            run = scenario(port)
            next(run)
            stop, longest = multiprocessing.Event(), multiprocessing.Value("d", 0.0)
            password = "x" if "--requirepass" in options else None
            other = multiprocessing.Process(target=probe, args=(port, password, stop, longest))
            with open(f"/proc/{server.pid}/clear_refs", "w") as file:
                file.write("5")
            before = status(server.pid, "VmRSS")
            other.start()
            time.sleep(0.3)
            longest.value = 0.0
            next(run, None)
            time.sleep(0.3)
            stop.set()
            other.join()
            peak = status(server.pid, "VmHWM") - before
            return max(0, peak) / MB, longest.value * 1000, status(server.pid, "VmRSS") / MB
        finally:
            server.kill()
            server.wait()


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("program")
    arguments.add_argument("results")
    arguments.add_argument("--rounds", type=int, default=5)
    given = arguments.parse_args()
    servers = [
        ("indelible", [given.program, "server", "--appendfsync", "everysec"]),
        ("redis", ["redis-server", "--save", "", "--appendonly", "yes"]),
    ]
    commit = subprocess.check_output(["git", "rev-parse", "--short", "HEAD"], text=True).strip()
    redis = subprocess.check_output(["redis-server", "--version"], text=True).split()[2]
    raw, rows = [f"commit {commit}, redis-server {redis}, {given.rounds} rounds"], []
    raw.append("point server peak_mib stall_ms resident_after_mib scenario")
    for point, name, scenario, options in SCENARIOS:
        figures = {}
        for _ in range(given.rounds):
            for server, command in servers:
                peak, stall, after = measure(command, scenario, options)
                figures.setdefault(server, []).append((peak, stall))
                raw.append(f"{point} {server} {peak:.1f} {stall:.1f} {after:.1f} {name}")
                print(raw[-1], flush=True)
        row = [point, name]
        for server, _ in servers:
            for at in range(2):
                values = [figure[at] for figure in figures[server]]
                row.append(f"{statistics.median(values):.0f} ({max(values):.0f})")
        rows.append("| " + " | ".join(row) + " |")
    with open(os.path.join(given.results, "raw.txt"), "w") as file:
        file.write("\n".join(raw) + "\n")
    with open(os.path.join(given.results, "table.md"), "w") as file:
        file.write("| point | one client | peak here, MiB | stall here, ms | peak of Redis, MiB | stall of Redis, ms |\n")
        file.write("|---|---|---:|---:|---:|---:|\n" + "\n".join(rows) + "\n")


if __name__ == "__main__":
    main()
