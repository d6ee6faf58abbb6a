"""What the scripts in this directory share: arguments, raw data, servers, waiting for an archive, sizes.

Whatever ends a script (its end, an error, SIGTERM, SIGINT), its servers are stopped by their ids, and what it has made in
DIRECTORY is removed.
"""
import argparse
import atexit
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "cold"))
import server as measured

# Of one command, in seconds: a tool that hangs ends the script.
LONGEST_S = 1800
KEY_BYTES = len(measured.key(0))
PROCESSES = []


def version(program):
    """The first line that a program says of itself; None if there is no such program."""
    if not shutil.which(program):
        return None
    said = subprocess.run([program, "--version"], capture_output=True, text=True, timeout=60)
    return (said.stdout or said.stderr).strip().split("\n")[0]


def options(description, *more, peers=(), rounds=5, appends=False):
    """The arguments of a script. `say` writes a line of JSON; `work` is a directory that goes at the end. The first line
    says the versions of `peers`: programs, or arguments that name one. `lines`, if it appends to --out, are those of earlier runs."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program", help="indelible")
    parser.add_argument("directory", help="for the data; what is made in it is removed at the end")
    parser.add_argument("--bench", help="indelible-bench; next to PROGRAM if not given")
    parser.add_argument("--server-processors", default="0" if os.cpu_count() > 1 else "", help="such as 0; empty: all")
    parser.add_argument("--scale", type=float, default=1, help="of the data (and of the scenario's time)")
    parser.add_argument("--rounds", type=int, default=rounds)
    parser.add_argument("--out", help="a file for the lines")
    for name, settings in more:
        parser.add_argument(name, **settings)
    chosen = parser.parse_args()
    chosen.program = os.path.abspath(chosen.program)
    chosen.bench = os.path.abspath(chosen.bench or os.path.join(os.path.dirname(chosen.program), "indelible-bench"))
    for program in (chosen.program, chosen.bench):
        if not shutil.which(program):
            parser.error(f"there is no {program}")
    os.makedirs(chosen.directory, exist_ok=True)
    chosen.work = tempfile.mkdtemp(prefix="backup-", dir=os.path.abspath(chosen.directory))
    atexit.register(shutil.rmtree, chosen.work, ignore_errors=True)
    atexit.register(end_all)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))
    chosen.lines = []
    if appends and chosen.out and os.path.exists(chosen.out):
        chosen.lines = [json.loads(line) for line in open(chosen.out)]
    out = open(chosen.out, "a" if appends else "w") if chosen.out else None

    def say(**line):
        told = json.dumps(line)
        print(told, flush=True)
        if out:
            print(told, file=out, flush=True)

    chosen.say = say
    say(
        version=version(chosen.program), command=[os.path.basename(sys.argv[0]), *redacted(chosen, sys.argv[1:])],
        peers={peer: version(getattr(chosen, peer, peer)) for peer in peers},
        processors=os.cpu_count(), memory_mb=os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20,
        disk_free_mb=shutil.disk_usage(chosen.work).free >> 20, load=round(os.getloadavg()[0], 2), kernel=os.uname().release,
    )
    return chosen


def redacted(chosen, words):
    """The arguments without the paths of this machine."""
    directory = os.path.abspath(chosen.directory)
    shown = lambda word: "DIRECTORY" if os.path.abspath(word) == directory else os.path.basename(word)
    return [shown(word) if os.sep in word else word for word in words]


def end_all():
    """Stops what was started, by its id, and waits until it is gone."""
    for process in PROCESSES:
        if process.poll() is None:
            process.kill()
    for process in PROCESSES:
        process.wait()
    PROCESSES.clear()


def begin(words, **more):
    process = subprocess.Popen(words, **more)
    PROCESSES.append(process)
    return process


def run(*words, **more):
    """What a command writes to its output; ends the script if it fails."""
    words = list(map(str, words))
    done = subprocess.run(words, **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, "timeout": LONGEST_S} | more)
    if done.returncode:
        sys.exit(f"{' '.join(words)}: {done.returncode}: {str(done.stderr)[-2000:]}")
    return done.stdout


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def start(chosen, words, directory):
    """A server that answers; `words` start it, without its port and directory."""
    server = measured.Server(chosen, free_port(), words, directory)
    server.start()
    PROCESSES.append(server.process)
    server.connect()
    return server


def indelible(chosen, *words):
    return [chosen.program, "server", "--save", "", "--enable-debug-command", "yes", "--enable-protected-configs", "yes", *map(str, words)]


def ask(connection, *words):
    reply = connection.call(*words)
    if isinstance(reply, bytes) and reply.startswith(b"-"):
        sys.exit(f"{' '.join(map(str, words))}: {reply.decode()}")
    return reply


def info_of(connection, section):
    text = ask(connection, "INFO", section).decode()
    return dict(line.split(":", 1) for line in text.split("\r\n") if ":" in line)


def digest_of(server):
    return server.call("DEBUG", "DIGEST").decode()


def wait_until(what, is_so, seconds=600, every=0.01):
    deadline = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > deadline:
            sys.exit(f"not in {seconds} s: {what}")
        time.sleep(every)


def wait_until_archived(server, lsn=None):
    """Waits until this block can be restored from the archive, or all that is durable. Returns the block."""
    connection = measured.Connection(server.port)
    lsn = lsn or int(info_of(connection, "everything")["redo_durable_lsn"])

    def is_there():
        info = info_of(connection, "backup")
        if info["archive_state"] in ("failed", "fenced", "off"):
            sys.exit(f"the archive is {info['archive_state']}: {info.get('archive_last_error')}")
        return info["archive_state"] == "streaming" and int(info["archive_lsn"]) >= lsn

    wait_until("archived", is_there)
    return lsn


def mark(connection, name):
    """The block of a backup, and how long its reply took, in milliseconds."""
    begun_s = time.perf_counter()
    reply = ask(connection, "BACKUP", "CREATE", name)
    return int(reply[1]), round((time.perf_counter() - begun_s) * 1000, 3)


class Receiver:
    """`indelible transfer serve`: the other machine."""

    def __init__(self, chosen, directory):
        os.makedirs(directory, exist_ok=True)
        words = [chosen.program, "transfer", "serve", directory, "--listen", "127.0.0.1:0", "--keep-free", "0"]
        if os.cpu_count() > 1:
            words = ["taskset", "-c", str(os.cpu_count() - 1), *words]
        self.process = begin(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.address = self.process.stdout.readline().split()[-1]

    def url(self, name):
        return f"transfer:{self.address}/{name}"

    def processor_seconds(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rsplit(")", 1)[1].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        self.process.kill()
        self.process.wait()


def restore(chosen, source, point, into):
    """Seconds, and what it says of itself."""
    begun_s = time.monotonic()
    said = run(chosen.program, "restore", source, *point, "--into", into, "--json")
    return time.monotonic() - begun_s, json.loads(said.strip().split("\n")[-1])


def bytes_in(directory):
    """Of files, each inode once."""
    found = {}
    for place, _, names in os.walk(directory):
        for name in names:
            try:
                at = os.lstat(os.path.join(place, name))
                found[at.st_dev, at.st_ino] = at.st_size
            except FileNotFoundError:
                pass
    return sum(found.values())


def synced(directory):
    """Makes a directory's file system durable."""
    run("sync", "-f", directory)


def drop_caches():
    """As root; whether it was done."""
    if os.geteuid():
        return False
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as kernel:
        kernel.write("1")
    return True
