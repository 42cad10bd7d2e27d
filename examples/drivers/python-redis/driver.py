"""A lockcheck driver for redis.lock.Lock of redis-py, on one Redis.

    lockcheck run "exec:python3 driver.py" --endpoint HOST:PORT

It hands on what the library answers and adds nothing: no deadline, no check of
the owner, no renewal. What the suites find is what an application would meet.
"""

import base64
import json
import os
import sys
import threading
import time

import redis
from redis.exceptions import ConnectionError, LockError, LockNotOwnedError, RedisError, ResponseError, TimeoutError
from redis.lock import Lock

# A call to a server that hangs ends after this. Without it, it never does.
PATIENCE = 2.0
POLL = 0.1  # the library's own

SAYS = {
    "version": 1,
    "name": f"redis-py {redis.__version__} Lock",
    "class": "lease",
    "features": ["wait", "renew", "hold-check", "owner-checked", "strict-try"],
    "hazards": ["pause", "suspend", "partition", "client-clock", "server-clock", "restart", "evict"],
    "max_processes": 64,
    "bounds": {"takeover_ms": 100, "poll_ms": POLL * 1000 + 150},
}


class Answer(Exception):
    """An outcome other than ok."""

    def __init__(self, outcome, message="", **fields):
        super().__init__(message)
        self.outcome, self.fields = outcome, fields


def outcome_of(error):
    """What an exception of the library says, in lockcheck's words."""
    if isinstance(error, Answer):
        return error.outcome
    if isinstance(error, (LockNotOwnedError, LockError)):
        return "not-held"
    if isinstance(error, (ConnectionError, TimeoutError)):
        return "unavailable"
    if isinstance(error, ResponseError):
        return "config"  # the server refused the command itself
    return "unavailable" if isinstance(error, RedisError) else "error"


def refusal(wait, took):
    """What it means that acquire returned False. A wait that has not elapsed
    is no timeout, and more than one attempt was made."""
    if wait == 0:
        return Answer("busy", "acquire returned False")
    if took < wait:
        return Answer("error", f"acquire gave up after {took * 1000:.0f} of {wait * 1000:.0f} ms", effect="none")
    return Answer("timeout", "acquire returned False")


class Stamped(Lock):
    """Notes when the attempt that won was sent. It changes nothing else."""

    sent = 0

    def do_acquire(self, token):
        self.sent = time.monotonic_ns()
        return super().do_acquire(token)


class Driver:
    def __init__(self, out):
        self.out, self.mutex = out, threading.Lock()
        self.redis = None
        self.tenures = {}
        self.cancelled = {}  # request id -> an event, for work only: the library's calls have no cancel
        self.last = 0

    def serve(self, requests):
        """Reads until stdin ends. Each request has a thread of its own, so
        that none keeps the next from being read."""
        for line in requests:
            request = json.loads(line)
            with self.mutex:
                self.cancelled[request["id"]] = threading.Event()
            threading.Thread(target=self.answer, args=(request,), daemon=True).start()
        os._exit(0)  # lockcheck is gone: leave at once, release nothing

    def answer(self, request):
        operation = getattr(self, "do_" + str(request.get("op")), None)
        try:
            if operation is None:
                raise Answer("unsupported", f"unknown op {request.get('op')!r}")
            if self.redis is None and request["op"] not in ("hello", "cancel"):
                raise Answer("error", "hello comes first")
            reply = {"outcome": "ok", **(operation(request) or {})}
        except Exception as e:
            reply = {"outcome": outcome_of(e), "message": str(e) or repr(e), **getattr(e, "fields", {})}
        self.write({"id": request["id"], **reply})
        with self.mutex:
            self.cancelled.pop(request["id"], None)
        if request.get("op") == "shutdown":
            os._exit(0)
        if request.get("op") == "hello" and reply["outcome"] == "unsupported":
            os._exit(64)

    def write(self, line):
        with self.mutex:
            self.out.write(json.dumps(line) + "\n")
            self.out.flush()

    # The operations. Each returns the fields of an "ok" reply, or raises.

    def do_hello(self, request):
        if SAYS["version"] not in request.get("versions", []):
            raise Answer("unsupported", "no common version; this driver speaks 1")
        endpoint = (request.get("endpoints") or [""])[0]
        host, _, port = endpoint.rpartition(":")
        if not port.isdigit():
            raise Answer("config", "no endpoint; give --endpoint HOST:PORT")
        # It connects when it is first used.
        self.redis = redis.Redis(host=host, port=int(port), socket_timeout=PATIENCE, socket_connect_timeout=PATIENCE)
        stamp = {"clock": "monotonic", "now_ns": time.monotonic_ns()} if sys.platform == "linux" else {}
        return {**SAYS, **stamp}

    def do_ping(self, request):
        if request.get("service"):
            self.redis.ping()
        return {"now_ns": time.monotonic_ns()}

    def do_acquire(self, request):
        lease, lock = self.enter(request)
        return {"lease": lease, "lease_ms": lock.timeout * 1000, "sent_ns": lock.sent}

    def enter(self, request):
        if request.get("mode") or request.get("count", 1) > 1 or request.get("renew") == "auto":
            raise Answer("unsupported", "neither readers nor permits nor renewal by itself")
        name = base64.b64decode(request["key_b64"]) if "key_b64" in request else request.get("key", "")
        wait = request.get("wait_ms", 0) / 1000
        # One Lock for each tenure. Its token is not thread-local, as the thread
        # that releases is another than the one that acquired.
        lock = Stamped(self.redis, name, timeout=request.get("lease_ms", 10000) / 1000, sleep=POLL, thread_local=False)
        began = time.monotonic()
        if not lock.acquire(blocking=wait != 0, blocking_timeout=wait if wait > 0 else None):
            raise refusal(wait, time.monotonic() - began)
        with self.mutex:
            self.last += 1
            lease = f"L{self.last}"
            self.tenures[lease] = lock
        return lease, lock

    def tenure(self, request):
        with self.mutex:
            lock = self.tenures.get(request.get("lease"))
        if lock is None:
            raise Answer("not-held", f"unknown lease {request.get('lease')!r}")
        return lock

    def do_held(self, request):
        if not self.tenure(request).owned():
            raise Answer("not-held", "owned returned False")

    def do_renew(self, request):
        lock = self.tenure(request)
        if "lease_ms" not in request:
            lock.reacquire()
            return {"lease_ms": lock.timeout * 1000}
        lock.extend(request["lease_ms"] / 1000, replace_ttl=True)
        lock.timeout = request["lease_ms"] / 1000  # what the next reacquire is to ask for
        return {"lease_ms": request["lease_ms"]}

    def do_write(self, request):
        """Check, work, write, as an application does; no second check."""
        self.do_held(request)
        self.work(request)

    def do_section(self, request):
        """What the library's context manager does between enter and exit."""
        lease, lock = self.enter(request)
        self.write({"event": "entered", "request": request["id"], "lease": lease, "lease_ms": lock.timeout * 1000})
        try:
            self.work(request)
        finally:
            self.write({"event": "left", "request": request["id"], "lease": lease})
            try:
                lock.release()
            except LockError as e:
                raise Answer("lost", str(e))

    def work(self, request):
        if self.cancelled[request["id"]].wait(request.get("work_ms", 0) / 1000):
            raise Answer("cancelled", "as asked")

    def do_release(self, request):
        self.tenure(request).release()

    def do_cancel(self, request):
        with self.mutex:
            cancelled = self.cancelled.get(request.get("target"))
        if cancelled:
            cancelled.set()

    def do_shutdown(self, request):
        with self.mutex:
            locks = list(self.tenures.values())
        for lock in locks if request.get("release") else []:
            try:
                lock.release()
            except RedisError:
                pass  # released before, or lost


def main():
    protocol, sys.stdout = sys.stdout, sys.stderr  # prints go to the log
    threading.stack_size(256 * 1024)  # a thread for each request
    Driver(protocol).serve(sys.stdin)


if __name__ == "__main__":
    main()
