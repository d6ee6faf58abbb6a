"""A server under measurement, the load of `indelible-bench client`, and what the system says of both.

For the scripts in this directory. The clients run on the last processor; the server on the processors of
--server-processors (all of them, if it is not given).
"""
import argparse
import atexit
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import time


def command(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    parts = [b"*%d\r\n" % len(words)] + [b"$%d\r\n%s\r\n" % (len(word), word) for word in words]
    return b"".join(parts)


def key(number):
    """As `indelible-bench client` names it."""
    return "key:%012d" % number


class Connection:
    """One request at a time, or many: `send`, then `reply` for each."""

    def __init__(self, port, timeout_s=600):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def send(self, data):
        self.socket.sendall(data)

    def reply(self):
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionError("the server has closed the connection")
        kind, rest = line[:1], line[1:-2]
        if kind == b"$":
            return None if rest == b"-1" else self.file.read(int(rest) + 2)[:-2]
        if kind == b"*":
            return [self.reply() for _ in range(int(rest))]
        return int(rest) if kind == b":" else line[:-2]

    def call(self, *words):
        self.send(command(*words))
        return self.reply()


class Server:
    """A process; `words` start it, without its port and its processors."""

    def __init__(self, options, port, words, directory):
        self.options, self.port, self.words, self.directory = options, port, words, directory
        self.process = None

    def start(self, *more):
        """The time of the exec."""
        os.makedirs(self.directory, exist_ok=True)
        words = [*self.words, "--port", str(self.port), "--dir", self.directory, *more]
        if self.options.server_processors:
            words = ["taskset", "-c", self.options.server_processors, *words]
        log = open(os.path.join(self.directory, "output.txt"), "ab")
        at = time.time()
        self.process = subprocess.Popen(words, stdout=log, stderr=subprocess.STDOUT)
        log.close()
        # A script that fails leaves no server behind.
        atexit.register(self.process.kill)
        return at

    def connect(self):
        """When the server answers, its first other reply than LOADING behind it."""
        while True:
            if self.process.poll() is not None:
                sys.exit(f"the server has ended: see {self.directory}/output.txt")
            try:
                connection = Connection(self.port)
                while str(connection.call("GET", "none")).startswith("b'-LOADING"):
                    time.sleep(0.0005)
                return connection
            except OSError:
                time.sleep(0.0005)

    def call(self, *words):
        connection = Connection(self.port)
        reply = connection.call(*words)
        connection.socket.close()
        return reply

    def info(self):
        text = self.call("INFO", "everything").decode()
        return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)

    def figure(self, name):
        return int(self.info().get(name, 0))

    def rest(self):
        """Waits until all keys are back, and index and compaction have nothing to do."""
        calm, before = 0, None
        while calm < 3:
            time.sleep(0.3)
            info = self.info()
            done = info.get("recovery_state", "done") in ("done", "on_demand")
            done &= int(info.get("redo_index_read_lsn", 1 << 62)) >= int(info.get("redo_open_lsn", 1)) - 1
            done &= info.get("redo_compacting", "0") == "0" and info.get("aof_rewrite_in_progress", "0") == "0"
            names = ["redo_index_runs", "redo_compactions", "cold_values", "cold_keys", "redo_index_cut_lsn"]
            now = [info.get(name) for name in names]
            calm = calm + 1 if done and now == before else 0
            before = now

    def io(self):
        """Bytes that the process has had read from and written to devices."""
        lines = open(f"/proc/{self.pid()}/io").read().splitlines()
        fields = dict(line.split(": ") for line in lines)
        return {name: int(fields[name]) for name in ("read_bytes", "write_bytes")}

    def processor_seconds(self):
        fields = open(f"/proc/{self.pid()}/stat").read().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self):
        return int(open(f"/proc/{self.pid()}/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def pid(self):
        return self.process.pid

    def kill(self):
        """With SIGKILL; when it was sent."""
        at = time.time()
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        return at

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait()


def cold_keys(share):
    """The words that say how much memory keys may take whose values have left it."""
    return ["--cold-keys-maxmemory", share]


def indelible(options, port, name, *words):
    """A server of the program that is measured, with an index, and no directive to save."""
    words = [options.program, "server", "--save", "", "--log-index", "yes", *words]
    return Server(options, port, words, os.path.join(options.directory, name))


def load_words(options, port, task, urgent, settings):
    words = [options.bench, "client", task, "--port", str(port)]
    for name, value in settings.items():
        words += ["--" + name.replace("_", "-"), str(value)]
    words = ["taskset", "-c", "0" if getattr(options, "spare", False) else str(os.cpu_count() - 1), *words]
    # A load that only measures must not wait for one that only loads.
    return ["chrt", "-f", "10", *words] if urgent else words


def begin_load(options, port, task, urgent=False, **settings):
    return subprocess.Popen(load_words(options, port, task, urgent, settings), stdout=subprocess.PIPE, text=True)


def end_load(process):
    """What the load has counted."""
    out, _ = process.communicate()
    if process.returncode:
        sys.exit("indelible-bench client has failed")
    return json.loads(out)


def load(options, port, task, **settings):
    return end_load(begin_load(options, port, task, **settings))


def fill(options, server, **settings):
    counted = load(options, server.port, "fill", connections=8, pipeline=64, **settings)
    if counted["errors"] or counted["broken"]:
        sys.exit(f"filling: {counted}")
    return counted


def drop_page_cache():
    """As root; otherwise nothing happens, which is said."""
    subprocess.run("sync; echo 3 > /proc/sys/vm/drop_caches", shell=True, check=False)


def told(line):
    print(json.dumps(line), flush=True)


def tell(options, **line):
    """Says it, and writes it to --out."""
    told(line)
    if options.out:
        with open(options.out, "a") as file:
            file.write(json.dumps(line) + "\n")


def tell_version(options):
    if options.out:
        version = subprocess.run([options.program, "--version"], capture_output=True, text=True, check=True)
        with open(options.out, "a") as file:
            file.write(json.dumps({"version": version.stdout.strip()}) + "\n")


def turned(names, number):
    """Another order in each round."""
    at = number % len(names)
    return names[at:] + names[:at]


LOGS = {
    "none": (["--appendonly", "no"], ["--appendonly", "no"]),
    "everysec": (["--appendfsync", "everysec"], ["--appendonly", "yes", "--appendfsync", "everysec"]),
    "always": (["--appendfsync", "always"], ["--appendonly", "yes", "--appendfsync", "always"]),
}


def one_of(options, port, name, log):
    """One of the servers that are compared ("indelible", "redis", "redis82"), in an empty directory."""
    directory = os.path.join(options.directory, f"{name}-{log}")
    shutil.rmtree(directory, ignore_errors=True)
    ours, theirs = LOGS[log]
    if name == "indelible":
        return Server(options, port, [options.program, "server", "--save", "", *ours], directory)
    path = options.redis82 if name == "redis82" else options.redis
    return Server(options, port, [path, "--save", "", *theirs], directory)


def spread(values, form="{:,.0f}"):
    values = [value for value in values if value is not None]
    if not values:
        return "-"
    return " ".join([form.format(statistics.median(values)), f"({form.format(min(values))} – {form.format(max(values))})"])


def table(header, rows):
    print("\n| " + " | ".join(header) + " |\n|" + " --- |" * len(header))
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |", flush=True)


def options(description, *more):
    """The arguments of a script; each of `more` is a name and what add_argument takes."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="indelible")
    parser.add_argument("directory", help="for the data; what is there of an earlier run is used again")
    parser.add_argument("--bench", help="indelible-bench; next to PROGRAM if not given")
    parser.add_argument("--server-processors", help="such as 0; all if not given")
    for name, settings in more:
        parser.add_argument(name, **settings)
    chosen = parser.parse_args()
    chosen.bench = chosen.bench or os.path.join(os.path.dirname(chosen.program), "indelible-bench")
    if not shutil.which(chosen.bench):
        parser.error(f"there is no {chosen.bench}")
    version = subprocess.run([chosen.program, "--version"], capture_output=True, text=True, check=True)
    told({
        "version": version.stdout.strip(),
        "command": sys.argv[1:],
        "processors": os.cpu_count(),
        "load": os.getloadavg()[0],
        "kernel": os.uname().release,
    })
    return chosen
