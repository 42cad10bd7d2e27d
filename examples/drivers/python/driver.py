"""A lockcheck driver for leaselock.py: it lets lockcheck use the lock from
outside, over stdin and stdout. Nothing but Python's standard library.

    lockcheck run "exec:python3 driver.py" --endpoint HOST:PORT
"""

import argparse
import json
import os
import sys
import threading
import time
from urllib.parse import urlsplit

import leaselock
from leaselock import LockError

VERSION = 1

SAYS = {
    "version": VERSION,
    "name": "leaselock (Python example)",
    "class": "lease",
    # What the lock offers. Claim what it is meant to do: each is tried.
    "features": ["wait", "renew", "auto-renew", "fencing", "loss-signal", "hold-check", "cancel",
                 "owner-checked", "strict-try"],
    # Failures that no lease can prevent, on the client's side and the server's.
    "hazards": ["pause", "suspend", "partition", "client-clock", "server-clock", "restart", "evict"],
    "max_processes": 64,
    "bounds": {"lease_min_ms": 10, "lease_max_ms": 3600000, "takeover_ms": 100, "loss_ms": 100,
               "loss_margin_ratio": leaselock.MARGIN + 0.02, "renew_every_ratio": 0.34,
               "cancel_ms": 200, "poll_ms": 200, "key_max": 512},
}


class Unsupported(LockError):
    word = "unsupported"


def exact(token):
    """Most languages round larger numbers, and say nothing."""
    return token if token <= 2**53 else str(token)


class Output:
    """The one writer of stdout. What the leases have to tell goes out before
    any reply: whoever reads a reply may conclude that nothing was lost before
    it was computed."""

    def __init__(self, stream):
        self.stream, self.mutex = stream, threading.Lock()
        self.leases = {}  # those that may still have news

    def watch(self, lease_id, lease):
        with self.mutex:
            self.leases[lease_id] = lease

    def reply(self, request_id, outcome, **fields):
        with self.mutex:
            self._tell()
            self._line({"id": request_id, "outcome": outcome, **fields})

    def event(self, name, **fields):
        with self.mutex:
            self._tell()
            self._line({"event": name, **fields})

    def tell(self):
        with self.mutex:
            self._tell()

    def _tell(self):
        for lease_id, lease in list(self.leases.items()):
            try:
                lease.held()  # a deadline that has passed is a loss, told or not
            except LockError:
                pass
            over = lease.over.is_set()
            while lease.news:
                what, at, detail = lease.news.popleft()
                if what == "lost":
                    self._line({"event": "lost", "lease": lease_id, "reason": detail, "driver_ns": at})
                else:
                    self._line({"event": "renewed", "lease": lease_id, "sent_ns": at, "lease_ms": detail * 1000})
            if over:
                del self.leases[lease_id]

    def _line(self, line):
        self.stream.write(json.dumps(line) + "\n")
        self.stream.flush()  # a line that stays in a buffer was not said


class Driver:
    def __init__(self, out, endpoint, wrong):
        self.out, self.endpoint, self.wrong = Output(out), endpoint, wrong
        self.mutex = threading.Lock()
        self.lock = None
        self.leases = {}
        self.open = {}  # request id -> the event that cancels it
        self.last = 0

    def serve(self, requests):
        """Reads until stdin ends. Each request has a thread of its own: a call
        that blocks must never keep the next request from being read."""
        for line in requests:
            request = json.loads(line)
            cancelled = threading.Event()
            with self.mutex:
                self.open[request["id"]] = cancelled
            threading.Thread(target=self.answer, args=(request, cancelled), daemon=True).start()
        os._exit(0)  # lockcheck is gone: leave at once, release nothing

    def answer(self, request, cancelled):
        operation = getattr(self, "do_" + str(request.get("op")), None)
        try:
            if operation is None:
                raise Unsupported(f"unknown op {request.get('op')!r}")
            outcome, fields = "ok", operation(request, cancelled) or {}
        except LockError as e:
            outcome, fields = e.word, {"message": str(e)}
        except Exception as e:  # a bug of the lock is an answer, not the driver's end
            outcome, fields = "error", {"message": repr(e)}
        with self.mutex:
            self.open.pop(request["id"], None)
        # What was granted can raise something as soon as it was named.
        granted = fields.pop("granted", None)
        self.out.reply(request["id"], outcome, **fields)
        if granted:
            self.out.watch(*granted)
            self.out.tell()
        if request.get("op") == "shutdown":
            os._exit(0)
        if request.get("op") == "hello" and outcome == "unsupported":
            os._exit(64)

    # The operations. Each returns the fields of an "ok" reply, or raises.

    def do_hello(self, request, _):
        if VERSION not in request.get("versions", []):
            raise Unsupported(f"no common version; this driver speaks {VERSION}")
        # What hello names wins over the command line.
        endpoint = (request.get("endpoints") or [self.endpoint])[0]
        if request.get("url"):
            endpoint = urlsplit(request["url"]).netloc
        host, _, port = (endpoint or "").rpartition(":")
        if not port.isdigit():
            raise leaselock.Misconfigured("the endpoint must be HOST:PORT; give --endpoint")
        # Nothing is connected yet: hello does not wait for the server.
        self.service = leaselock.Service(host, int(port))
        name = f"{request.get('node', 'n')}-{request.get('incarnation', 1)}"
        self.lock = leaselock.Lock(self.service, name, self.wrong)
        return {**SAYS, **self.clock()}

    def clock(self):
        if sys.platform != "linux":
            return {}
        return {"clock": "monotonic", "now_ns": time.monotonic_ns()}

    def do_ping(self, request, _):
        if request.get("service"):
            self.service.call(leaselock.PATIENCE, op="ping")
        return {"now_ns": time.monotonic_ns()}

    def do_acquire(self, request, cancelled):
        lease_id, lease = self.enter(request, cancelled)
        return {"lease": lease_id, "token": exact(lease.token), "lease_ms": lease.granted * 1000,
                "sent_ns": lease.sent, "granted": (lease_id, lease)}

    def enter(self, request, cancelled):
        if self.lock is None:
            raise LockError("hello comes first")
        if request.get("mode") or request.get("count", 1) > 1:
            raise Unsupported("neither readers nor permits")
        key = request.get("key", "")
        if request.get("key_b64"):
            raise leaselock.InvalidKey("a key is valid UTF-8")
        lease = self.lock.acquire(
            key, request.get("lease_ms", 30000) / 1000, wait=request.get("wait_ms", 0) / 1000,
            renew=request.get("renew", "auto") == "auto", cancelled=cancelled, changed=self.out.tell)
        with self.mutex:
            self.last += 1
            lease_id = f"L{self.last}"
            self.leases[lease_id] = lease
        return lease_id, lease

    def lease(self, request):
        with self.mutex:
            lease = self.leases.get(request.get("lease"))
        if lease is None:
            raise leaselock.NotHeld(f"unknown lease {request.get('lease')!r}")
        return lease

    def do_held(self, request, _):
        self.lease(request).held()

    def do_renew(self, request, _):
        lease = self.lease(request)
        lease.renew(request.get("lease_ms", 0) / 1000)
        return {"lease_ms": lease.granted * 1000}

    def do_write(self, request, cancelled):
        """Check, work, write, as an application does; no second check."""
        lease = self.lease(request)
        lease.held()
        self.work(request, cancelled)
        return {"token": exact(lease.token)}

    def do_section(self, request, cancelled):
        lease_id, lease = self.enter(request, cancelled)
        self.out.event("entered", lease=lease_id, request=request["id"], token=exact(lease.token),
                       lease_ms=lease.granted * 1000)
        self.out.watch(lease_id, lease)
        try:
            self.work(request, cancelled)
        finally:
            self.out.event("left", lease=lease_id, request=request["id"])
            lease.release()
        return {"token": exact(lease.token)}

    @staticmethod
    def work(request, cancelled):
        if cancelled.wait(request.get("work_ms", 0) / 1000):
            raise leaselock.Cancelled("as asked")

    def do_release(self, request, _):
        self.lease(request).release()

    def do_cancel(self, request, _):
        with self.mutex:
            cancelled = self.open.get(request.get("target"))
        if cancelled:
            cancelled.set()

    def do_shutdown(self, request, _):
        with self.mutex:
            leases = list(self.leases.values())
            for cancelled in self.open.values():
                cancelled.set()
        for lease in leases if request.get("release") else []:
            try:
                lease.release()
            except LockError:
                pass  # it was not held any more


def main():
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--endpoint", help="HOST:PORT of the server, where hello names none")
    flags.add_argument("--wrong", choices=leaselock.WRONG, default="", help="be wrong, deliberately")
    options = flags.parse_args()
    protocol, sys.stdout = sys.stdout, sys.stderr  # prints go to the log
    Driver(protocol, options.endpoint, options.wrong).serve(sys.stdin)


if __name__ == "__main__":
    main()
