"""Sends the metrics of a run to a service while the run trains. The loggers share this module.

    python3 SERVICE_logger.py RUN [RESUMED_STEP]

A job starts a logger with this command line and with a pipe as stdin. The end of stdin means that
the job is over. A user can send the metrics that a logger could not send, for example without a
network, by `python3 SERVICE_logger.py RUN < /dev/null`.

RUN/logger-SERVICE.json contains the run's id at the service and the last step that was sent, so
that later jobs of the run continue the same run at the service.
"""
import fcntl
import hashlib
import importlib.util
import json
import os
import pathlib
import signal
import sys
import threading
import time
import tomllib
import traceback
from typing import NamedTuple

INTERVAL = 1.0  # seconds between two looks at metrics.jsonl
PATIENCE = 30  # seconds after the end of a job until the kernel ends its logger
MOST_BYTES = 1 << 14  # read from metrics.jsonl and sent at once: some 30 steps
LONGEST_WAIT = 60.0  # seconds between two attempts to send
LAST_ATTEMPTS = 4  # attempts to send after the end of the job, a second apart


class Record(NamedTuple):
    """The metrics of a step, by name, without those that are null."""

    step: int
    time: float | None  # Unix time in seconds
    values: dict


class Run(NamedTuple):
    """The properties of a run that loggers use."""

    folder: pathlib.Path
    name: str
    plan: dict  # values by the plan's full keys
    state: "State"


class State(dict):
    """The JSON object in a file. The file is locked, so that only one process at a time uses it."""

    def __init__(self, path):
        self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        self._lock(path)
        try:
            super().__init__(json.loads(os.pread(self.fd, 4096, 0)))
        except ValueError:  # a new file
            super().__init__()

    def _lock(self, path):
        """Locks the file. Waits for the logger of a killed job, which may not have exited yet."""
        end = time.monotonic() + 2 * PATIENCE
        while True:
            try:
                return fcntl.flock(self.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > end:
                    sys.exit(f"another logger uses {path}")
                time.sleep(0.1)
            except OSError:  # the file system has no locks
                return None

    def save(self):
        """Writes the object with one system call of a constant size, so that it is always whole."""
        os.pwrite(self.fd, f"{json.dumps(self):<1023}\n".encode(), 0)


def leaves(value, separator, name=""):
    """Yields the names and values of the leaves of nested objects and lists."""
    if isinstance(value, (dict, list)):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(inner, separator, f"{name}{separator}{key}" if name else str(key))
    else:
        yield name, value


def record_of(line):
    values = {name: value for name, value in leaves(json.loads(line), "/") if value is not None}
    return Record(values["step"], values.get("time"), values)


def result_of(folder):
    """Returns the record of the last job, which is written before the logger starts."""
    try:
        return json.loads((folder / "result.json").read_text())
    except (OSError, ValueError):
        return {}


def open_state(folder, name, plan, resumed):
    """Returns the state of the run at the service. The state of a new run contains no id.

    Steps after the one from which a job resumes are sent again only if the plan has changed;
    otherwise their metrics are the same.
    """
    state = State(folder / f"logger-{name}.json")
    job = result_of(folder).get("job")
    if resumed == 0 and state.get("job") != job:
        state.clear()
    if resumed is not None:
        facts = {key: value for key, value in plan.items() if key != "checkpoint.resume"}
        digest = hashlib.sha256(json.dumps(facts).encode()).hexdigest()
        if state.get("plan") != digest:
            state["sent"] = min(state.get("sent", 0), resumed)
        state.update(job=job, plan=digest)
    state.setdefault("sent", 0)
    state.save()
    return state


def await_end(over):
    """Waits for the end of stdin, then sets `over`. The kernel ends the logger PATIENCE seconds later."""
    while os.read(0, 4096):
        pass
    signal.alarm(PATIENCE)
    over.set()


def send_patiently(service, records, over):
    """Sends the records. Repeats a failed attempt while the job runs, and a few times after its end."""
    wait, last_attempts = 1.0, LAST_ATTEMPTS
    while True:
        last_attempts -= over.is_set()
        try:
            return service.send(records)
        except Exception:
            if last_attempts == 0:
                raise
            traceback.print_exc()
        if over.is_set():
            time.sleep(1.0)
        over.wait(wait)
        wait = min(2 * wait, LONGEST_WAIT)


def follow(run, service, over):
    """Sends all lines of metrics.jsonl after the last sent step, until the job is over."""
    rest = ""
    with open(run.folder / "metrics.jsonl") as file:
        while True:
            ended = over.wait(INTERVAL)  # before reading: the last lines were written before the end
            while text := file.read(MOST_BYTES):
                *lines, rest = (rest + text).split("\n")
                records = [record_of(line) for line in lines]
                records = [record for record in records if record.step > run.state["sent"]]
                if records:
                    send_patiently(service, records, over)
                    run.state["sent"] = records[-1].step
                    run.state.save()
            if ended:
                return


def main(name, connect):
    """Runs a logger. `connect(run)` returns the service, an object with send(records) and
    close(failed). `connect` also imports the package connect.package, which takes seconds."""
    if sys.argv[1] == "--check":
        sys.exit(importlib.util.find_spec(connect.package) is None)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # sent to the whole job; the logger ends after the job
    over = threading.Event()
    threading.Thread(target=await_end, args=(over,), daemon=True).start()
    folder = pathlib.Path(sys.argv[1]).resolve()
    plan_file = folder / "plan.toml"
    plan = dict(leaves(tomllib.loads(plan_file.read_text() if plan_file.exists() else ""), "."))
    state = open_state(folder, name, plan, int(sys.argv[2]) if len(sys.argv) > 2 else None)
    run = Run(folder, folder.name, plan, state)
    service = connect(run)
    try:
        follow(run, service, over)
    except BaseException:
        service.close(failed=True)
        raise
    service.close(failed=not result_of(folder).get("ended", False))
