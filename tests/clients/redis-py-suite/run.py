"""redis-py's own suite, out of its source package: with RESP2 and RESP3, and through asyncio. left-out.txt names what is
left out, and why. What needs modules, a cluster, a replica or certificates is left out by the suite's own marks."""

import os
import pathlib
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).resolve().parent
MARKS = "not onlycluster and not redismod and not ssl and not cp_integration and not replica"
# Redis 7.0 passes as many of the tests that are not asynchronous, streams and users among them.
AT_LEAST = 813


def left_out():
    lines = (HERE / "left-out.txt").read_text().splitlines()
    return {line for line in lines if line and not line.startswith("#")}


class LeavesOut:
    def __init__(self, names):
        self.names = names
        self.passed = 0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, config, items):
        named = [item.nodeid.split("[")[0] for item in items]
        config.hook.pytest_deselected(items=[item for item, name in zip(items, named) if name in self.names])
        items[:] = [item for item, name in zip(items, named) if name not in self.names]
        missing = self.names - set(named)
        if missing:
            raise pytest.UsageError(f"left-out.txt names tests that are not there: {sorted(missing)}")

    def pytest_runtest_logreport(self, report):
        self.passed += report.when == "call" and report.passed


def run(protocol, tests):
    asynchronous = tests == "asyncio"
    names = {name for name in left_out() if name.startswith("tests/test_asyncio/") == asynchronous}
    leaves_out = LeavesOut(names)
    url = f"redis://127.0.0.1:{os.environ['INDELIBLE_PORT']}/0"
    options = ["-q", "-p", "no:cacheprovider", "-o", "addopts=", "-o", "filterwarnings=ignore", "--tb", "short", "-m", MARKS]
    options += ["--redis-url", url, "--protocol", protocol, "--timeout", "60"]
    # Of modules, and in want of numpy.
    options += ["--ignore-glob", "*/test_search.py", "--ignore-glob", "*/test_vsets.py"]
    options += ["tests/test_asyncio"] if asynchronous else ["--ignore", "tests/test_asyncio", "tests"]
    status = pytest.main(options, plugins=[leaves_out])
    if status == 0 and leaves_out.passed < AT_LEAST:
        print(f"{leaves_out.passed} tests passed, fewer than {AT_LEAST}")
        return 1
    print(f"{leaves_out.passed} with RESP{protocol} ({tests}; {len(names)} left out)")
    return int(status)


if len(sys.argv) > 1:
    sys.exit(run(*sys.argv[1:]))
# A process each: the suite keeps what it knows of the server in its modules.
lines = []
for arguments in [["2", "blocking"], ["3", "blocking"], ["3", "asyncio"]]:
    done = subprocess.run([sys.executable, __file__, *arguments], stdout=subprocess.PIPE, text=True)
    print(done.stdout)
    if done.returncode != 0:
        sys.exit(done.returncode)
    lines.append(done.stdout.splitlines()[-1])
print(f"redis-py's own suite: passed {', '.join(lines)}")
