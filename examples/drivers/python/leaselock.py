"""A small lease lock, in the shape that real ones have: it keeps a key for a
while on a server, renews in the background, and says when the lock is lost.
It speaks the protocol of `lockcheck serve`, JSON lines over TCP.

Nothing in this file knows that it is tested; driver.py does. The exception are
the deliberate faults (WRONG), which show what lockcheck finds.
"""

import collections
import json
import os
import random
import socket
import threading
import time

MARGIN = 0.1  # of a lease: the holder lets go this long before the server does
POLL = 0.02  # seconds between two attempts of a wait
PATIENCE = 2.0  # seconds with a server that says nothing

WRONG = {
    "release-without-owner": "a release deletes the key, whoever holds it",
    "steals": "a key that is busy is deleted and taken",
    "constant-token": "every grant gets the same fencing token",
    "silent-loss": "a loss is never signalled",
    "no-renewal": "nobody renews in the background",
    "blind-hold-check": "the hold check says yes, always",
    "promises-double": "a lease is said to be twice as long as it is",
}


class LockError(Exception):
    """An answer other than "yes"; word is the protocol's word for it."""

    word = "error"


def _kind(word):
    return type(word, (LockError,), {"word": word})


Busy = _kind("busy")  # one attempt was made, the key is held
TimedOut = _kind("timeout")  # the wait is over, the key was held throughout
Unavailable = _kind("unavailable")  # no answer: nobody knows what happened
Lost = _kind("lost")  # was the holder, is no more
NotHeld = _kind("not-held")
InvalidKey = _kind("invalid-key")
Misconfigured = _kind("config")
Cancelled = _kind("cancelled")


class Service:
    """One connection to the server, shared, made anew when it broke."""

    def __init__(self, host, port):
        self.address = (host, port)
        self.lock = threading.Lock()
        self.sock = None
        self.waiting = {}  # request id -> its queue of one
        self.last_id = 0
        self.heard = 0.0

    def call(self, timeout, **request):
        """Sends a request and returns its reply, or raises Unavailable."""
        answered, got = threading.Event(), []
        with self.lock:
            try:
                sock = self._connected(timeout)
                self.last_id += 1
                request["id"] = self.last_id
                if not self.waiting:
                    self.heard = time.monotonic()  # no answer is owed before now
                self.waiting[request["id"]] = (answered, got)
                sock.sendall(json.dumps(request).encode() + b"\n")
            except OSError as e:
                self._drop(self.sock)
                raise Unavailable(f"{request['op']}: {e}") from e
        answered.wait(timeout)
        with self.lock:
            self.waiting.pop(request["id"], None)
            if got:
                return got[0]
            if time.monotonic() - self.heard > PATIENCE:
                self._drop(self.sock)  # half open, perhaps
        raise Unavailable(f"{request['op']}: no answer within {timeout:.3f} s")

    def post(self, **request):
        """Sends a request whose reply nobody waits for."""
        try:
            self.call(0, **request)
        except Unavailable:
            pass

    def _connected(self, timeout):
        if self.sock is None:
            sock = socket.create_connection(self.address, timeout=min(max(timeout, 0.1), 0.5))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.settimeout(PATIENCE)
            self.sock, self.heard = sock, time.monotonic()
            threading.Thread(target=self._read, args=(sock,), daemon=True).start()
        return self.sock

    def _read(self, sock):
        unread = b""
        while True:
            try:
                chunk = sock.recv(65536)
            except TimeoutError:
                continue  # nothing was said, which is no news
            except OSError:
                chunk = b""
            with self.lock:
                if not chunk:
                    self._drop(sock)
                    return
                self.heard = time.monotonic()
                *lines, unread = (unread + chunk).split(b"\n")
                for line in lines:
                    reply = json.loads(line)
                    answered, got = self.waiting.get(reply.get("id"), (None, None))
                    if answered:
                        got.append(reply)
                        answered.set()

    def _drop(self, sock):
        """Gives a connection up; who waits on it gets no reply. lock is held."""
        if sock is None or sock is not self.sock:
            return
        self.sock = None
        sock.close()
        for answered, _ in self.waiting.values():
            answered.set()


class Lock:
    """A way to the server. Safe for use by many threads."""

    def __init__(self, service, name, wrong=""):
        self.service, self.name, self.wrong = service, name, wrong

    def acquire(self, key, lease, wait=0.0, renew=True, cancelled=None, changed=lambda: None):
        """Takes a key for so many seconds, again and again until it is renewed
        no more. wait: 0 makes one attempt, negative waits without limit.
        changed is called when the lease has news."""
        if not 1 <= len(key.encode()) <= 512:
            raise InvalidKey(f"a key has 1 to 512 bytes, not {len(key.encode())}")
        if not 0.01 <= lease <= 3600:
            raise Misconfigured(f"a lease is 10 ms to 1 h, not {lease} s")
        cancelled = cancelled or threading.Event()
        until = float("inf") if wait < 0 else time.monotonic() + wait
        while True:
            try:
                return self._attempt(key, lease, renew, changed)
            except Busy:
                if wait == 0:
                    raise
            left = until - time.monotonic()
            if left <= 0:
                raise TimedOut(f"{key!r} was held for {wait} s")
            if cancelled.wait(min(left, POLL * (1 + random.random()))):
                raise Cancelled("as asked")

    def _attempt(self, key, lease, renew, changed):
        # An owner of its own for each attempt: whatever became of an earlier
        # one, this one cannot be taken for it.
        owner = f"{self.name}-{os.urandom(8).hex()}"
        sent = time.monotonic_ns()
        ask = {"op": "acquire", "key": key, "owner": owner, "lease_ns": self.asked(lease)}
        try:
            reply = self.service.call(min(PATIENCE, lease * (1 - MARGIN)), **ask)
        except Unavailable:
            # The grant may still come. What follows on the same connection
            # cannot overtake it.
            self.service.post(op="release", key=key, owner=owner)
            raise
        if reply["outcome"] == "busy" and self.wrong == "steals":
            self.service.call(PATIENCE, op="delete", key=key)
            return self._attempt(key, lease, renew, changed)
        if reply["outcome"] != "ok":
            raise failure(reply)
        if time.monotonic_ns() >= sent + lease * (1 - MARGIN) * 1e9:
            self.service.post(op="release", key=key, owner=owner)
            raise Unavailable("the grant came too late")
        token = 1 if self.wrong == "constant-token" else reply["token"]
        return Lease(self, key, owner, token, lease, sent, renew, changed)


    def asked(self, lease):
        return int(lease * 1e9) // (2 if self.wrong == "promises-double" else 1)


class Lease:
    """One stay as the holder of a key.

    It ends when it is released, when the server says so, or at the deadline:
    the SEND time of the last good renewal plus the lease, less a margin. Who
    counts from the reply believes in the lock for longer than the server does.
    """

    def __init__(self, lock, key, owner, token, lease, sent, renew, changed):
        self.lock, self.key, self.owner, self.token = lock, key, owner, token
        self.granted, self.sent, self.changed = lease, sent, changed
        self.deadline = sent + self._usable(lease)
        self.mutex = threading.RLock()
        self.over = threading.Event()  # released or lost
        self.moved = threading.Event()  # the deadline did, or it is over
        self.released = False
        self.lost = None  # why, once it is
        self.lost_at = 0
        self.news = collections.deque()  # ("renewed", sent, lease) and ("lost", at, why)
        threading.Thread(target=self._expire, daemon=True).start()
        if renew and lock.wrong != "no-renewal":
            threading.Thread(target=self._keep, daemon=True).start()

    @staticmethod
    def _usable(lease):
        return int(lease * (1 - MARGIN) * 1e9)

    def held(self):
        """Raises Lost or NotHeld unless the lease stands. It looks at the clock
        itself: after a pause of this process no timer has run yet."""
        with self.mutex:
            if self.lock.wrong == "blind-hold-check":
                return
            if self.released:
                raise NotHeld("released")
            if self.lost is None and time.monotonic_ns() >= self.deadline:
                self._lose("expired")
            if self.lost is not None:
                raise Lost(self.lost)

    def renew(self, lease=0.0, by_itself=False):
        """Renews, asking for as much as was granted if for nothing else."""
        self.held()
        lease = lease or self.granted
        sent = time.monotonic_ns()
        with self.mutex:
            # From now on the server may have granted the shorter one.
            self._move(min(self.deadline, sent + self._usable(lease)))
        reply = self.lock.service.call(
            min(PATIENCE, lease / 4), op="renew", key=self.key, owner=self.owner, lease_ns=self.lock.asked(lease))
        with self.mutex:
            self.held()  # it may have been lost meanwhile; a loss is final
            if reply["outcome"] == "ok":
                self.granted = lease
                self._move(sent + self._usable(lease))
                if by_itself:
                    self.news.append(("renewed", sent, lease))
                return sent
            if reply["outcome"] == "not-held":
                self._lose(reply.get("reason", "taken over"))
                raise Lost(self.lost)
        raise failure(reply)

    def release(self):
        """Gives the key back. After a loss the server is still told, once, and
        it checks the owner: the key may be somebody else's by now."""
        with self.mutex:
            again, self.released = self.released, True
            lost = self.lost
            self.over.set()
            self.moved.set()
        if again:
            raise NotHeld("released before")
        op = "delete" if self.lock.wrong == "release-without-owner" else "release"
        if lost is not None:
            self.lock.service.post(op=op, key=self.key, owner=self.owner)
            raise Lost(lost)
        reply = self.lock.service.call(PATIENCE, op=op, key=self.key, owner=self.owner)
        if reply["outcome"] == "not-held":
            raise Lost(reply.get("reason", "taken over"))
        if reply["outcome"] != "ok":
            raise failure(reply)

    def _move(self, deadline):
        self.deadline = deadline
        self.moved.set()

    def _lose(self, why):
        if self.lost is not None or self.released:
            return
        self.lost, self.lost_at = why, time.monotonic_ns()
        self.over.set()
        self.moved.set()
        if self.lock.wrong != "silent-loss":
            self.news.append(("lost", self.lost_at, why))

    def _expire(self):
        """Ends the lease at its deadline, whatever a renewal is doing."""
        while not self.over.is_set():
            self.moved.wait(max(0.0, (self.deadline - time.monotonic_ns()) / 1e9))
            self.moved.clear()
            with self.mutex:
                if not self.over.is_set() and time.monotonic_ns() >= self.deadline:
                    self._lose("expired")
        self.changed()

    def _keep(self):
        """Renews at every third of the lease, and sooner after a failure."""
        pause = self.granted / 3
        while not self.over.wait(pause):
            try:
                sent = self.renew(by_itself=True)
            except Unavailable:
                pause = self.granted / 12
                continue
            except LockError:
                break
            pause = max(0.0, self.granted / 3 - (time.monotonic_ns() - sent) / 1e9)
            self.changed()
        self.changed()


def failure(reply):
    """The exception for a reply that is not ok."""
    for kind in (Busy, NotHeld, Misconfigured, Unavailable):
        if kind.word == reply["outcome"]:
            return kind(reply.get("reason") or reply.get("message") or "")
    return LockError(json.dumps(reply))
