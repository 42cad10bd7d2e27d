// A lockcheck driver for node-redlock, on one Redis or a majority of several.
//
//   lockcheck run "exec:node driver.js" --endpoint HOST:PORT
//   lockcheck run "exec:node driver.js --using" --endpoint HOST:PORT
//
// The first holds a key by acquire, extend and release; the second within the
// routine of using, which extends the lock by itself. It hands on what the
// library answers and adds nothing: no deadline, no check of the owner, no
// renewal of its own. What the suites find is what an application would meet.
"use strict";

const readline = require("node:readline");
const Redis = require("ioredis");
const { default: Redlock, ExecutionError, ResourceLockedError } = require("redlock");

const USING = process.argv.includes("--using");
const RETRY = 200; // the library's own delay between attempts
const BOUND = 5000; // of every call, beyond its wait

global.console = new console.Console(process.stderr); // stdout is the protocol's

// An outcome other than ok.
class Answer extends Error {
  constructor(outcome, message, fields = {}) {
    super(message);
    Object.assign(this, { outcome, fields });
  }
}

const now = () => Number(process.hrtime.bigint());
const wall = Date.now; // which clock replaces
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const say = (line) => process.stdout.write(JSON.stringify(line) + "\n"); // pipes are written to at once

let clients = [];
let redlock;
let last = 0;
const tenures = new Map(); // lease id -> tenure
const working = new Map(); // request id -> how to cancel its work; the library's calls have no cancel

function describe() {
  const single = clients.length === 1;
  return {
    version: 1,
    name: `node-redlock 5.0.0-beta.2${USING ? " using" : ""}${single ? "" : `, majority of ${clients.length}`}`,
    class: single ? "lease" : "replicated-lease",
    features: ["wait", "owner-checked", "clock-skew"]
      .concat(USING ? ["auto-renew", "loss-signal"] : ["renew"])
      .concat(single ? ["strict-try"] : []), // on several, an attempt may be split
    hazards: ["pause", "suspend", "partition", "client-clock", "server-clock", "restart", "evict"],
    max_processes: 64,
    bounds: { takeover_ms: 100, poll_ms: 1.5 * RETRY + 150 },
  };
}

// attempts spells a wait as the library has it, so that the last attempt falls
// on its end.
function attempts(wait) {
  if (wait < 0) return { retryCount: -1 };
  if (!wait) return { retryCount: 0 };
  const retryCount = Math.ceil(wait / RETRY);
  return { retryCount, retryDelay: Math.ceil(wait / retryCount), retryJitter: 0 };
}

// promised is how long the library itself counts on a lease, from the call.
const promised = (duration) => duration - Math.round(0.01 * duration) - 2;

// refusal is what a failed operation says: "against" where servers answered that
// the key is not ours, and none that did not answer could have changed that.
async function refusal(error, against) {
  if (error instanceof Answer) return error;
  if (!(error instanceof ExecutionError)) return new Answer("config", error.message); // thrown before anything was sent
  if (error.attempts.length === 0) return new Answer("lost", error.message); // by its clock, extend has not asked
  const stats = await Promise.race([error.attempts.at(-1), sleep(500)]);
  const errors = stats ? [...stats.votesAgainst.values()] : [];
  const taken = errors.filter((e) => e instanceof ResourceLockedError).length;
  if (taken && (taken === errors.length || taken >= stats.quorumSize)) return new Answer(against, error.message);
  return new Answer("unavailable", `${error.message} ${errors.join("; ")}`);
}

// bounded ends a call that does not come back; what it is granted later is
// given back.
async function bounded(wait, call, late) {
  if (wait < 0) return call;
  let timer;
  const limit = new Promise((_, reject) => {
    timer = setTimeout(() => {
      reject(new Answer("unavailable", "the call did not come back"));
      call.then(late, () => {});
    }, wait + BOUND - 100);
  });
  return Promise.race([call, limit]).finally(() => clearTimeout(timer));
}

// A tenure by acquire, extend and release.
class Manual {
  static async acquire(key, duration, wait) {
    const t = new Manual();
    t.sent = now();
    t.granted = promised(duration);
    t.duration = duration;
    t.lock = await redlock.acquire([key], duration, attempts(wait));
    return t;
  }
  check() {
    if (this.lock.expiration <= Date.now()) throw new Answer("lost", "its expiration has passed");
  }
  async renew(duration = this.duration) {
    this.lock = await this.lock.extend(duration);
    [this.duration, this.granted] = [duration, promised(duration)];
  }
  release() {
    return this.lock.release();
  }
}

// A tenure that lasts as long as a routine of using.
class Using {
  static acquire(key, duration, wait) {
    const t = new Using();
    t.sent = now();
    t.granted = promised(duration);
    const settings = { ...attempts(wait), automaticExtensionThreshold: Math.floor(duration / 3) };
    return new Promise((resolve, reject) => {
      t.ended = redlock.using([key], duration, settings, (signal) => {
        t.signal = signal;
        signal.addEventListener("abort", () => t.lost());
        resolve(t);
        return new Promise((end) => (t.end = end));
      });
      t.ended.catch(reject);
    });
  }
  lost() {
    if (!this.id || this.over) return;
    say({ event: "lost", lease: this.id, reason: String(this.signal.error?.message), driver_ns: now() });
  }
  check() {
    if (this.signal.aborted) throw new Answer("lost", "its signal is aborted");
  }
  async release() {
    if (this.over) throw new Answer("not-held", "its routine has returned");
    this.check = () => {
      throw new Answer("not-held", "its routine has returned");
    };
    const aborted = this.signal.aborted;
    this.over = true;
    this.end();
    if (aborted) this.ended.catch(() => {});
    else return this.ended;
    throw new Answer("lost", "its signal is aborted");
  }
}

async function enter(q, kind) {
  if (q.mode || q.count > 1) throw new Answer("unsupported", "neither readers nor permits");
  if (kind === Manual && q.renew === "auto") throw new Answer("unsupported", "that is what --using does");
  if (kind === Using && q.renew === "manual" && USING) throw new Answer("unsupported", "using renews by itself");
  if (q.key_b64) throw new Answer("invalid-key", "a resource is a string");
  const wait = q.wait_ms ?? 0;
  try {
    const call = kind.acquire(q.key, q.lease_ms ?? 10000, wait);
    const t = await bounded(wait, call, (late) => late.release().catch(() => {}));
    t.id = `L${++last}`;
    tenures.set(t.id, t);
    return t;
  } catch (error) {
    throw await refusal(error, wait ? "timeout" : "busy");
  }
}

function tenure(q) {
  const t = tenures.get(q.lease);
  if (!t) throw new Answer("not-held", `unknown lease ${q.lease}`);
  return t;
}

function work(q) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, q.work_ms ?? 0);
    working.set(q.id, () => {
      clearTimeout(timer);
      reject(new Answer("cancelled", "as asked"));
    });
  }).finally(() => working.delete(q.id));
}

// The operations. Each returns the fields of an "ok" reply, or throws.
const operations = {
  hello(q) {
    if (!q.versions?.includes(1)) throw new Answer("unsupported", "no common version; this driver speaks 1");
    if (!q.endpoints?.length) throw new Answer("config", "no endpoint; give --endpoint HOST:PORT");
    clients = q.endpoints.map((endpoint) => {
      const [, host, port] = endpoint.match(/^(.*):(\d+)$/);
      const client = new Redis(Number(port), host); // it connects by and by
      client.on("error", (error) => console.error(endpoint, error.message));
      return client;
    });
    redlock = new Redlock(clients);
    return { ...describe(), ...(process.platform === "linux" && { clock: "monotonic", now_ns: now() }) };
  },

  async ping(q) {
    if (q.service) {
      const some = Promise.allSettled(clients.map((client) => bounded(0, client.ping(), () => {})));
      const answered = (await some).filter((r) => r.status === "fulfilled").length;
      if (2 * answered <= clients.length) throw new Answer("unavailable", "no majority answers");
    }
    return { now_ns: now() };
  },

  // The library counts in wall time.
  clock(q) {
    const [from, rate] = [wall(), q.rate || 1];
    Date.now = () => Math.round(from + (q.offset_ms ?? 0) + (wall() - from) * rate);
  },

  async acquire(q) {
    const t = await enter(q, USING ? Using : Manual);
    return { lease: t.id, lease_ms: t.granted, sent_ns: t.sent };
  },

  held() {
    throw new Answer("unsupported", "the library has nothing that asks");
  },

  async renew(q) {
    const t = tenure(q);
    if (USING) throw new Answer("unsupported", "using renews by itself");
    try {
      await bounded(0, t.renew(q.lease_ms), () => {});
    } catch (error) {
      throw await refusal(error, "not-held");
    }
    return { lease_ms: t.granted };
  },

  async write(q) {
    tenure(q).check();
    await work(q);
  },

  async section(q) {
    const t = await enter(q, Using);
    say({ event: "entered", request: q.id, lease: t.id, lease_ms: t.granted });
    try {
      await work(q);
    } finally {
      say({ event: "left", request: q.id, lease: t.id });
      await operations.release({ lease: t.id }).catch((error) => {
        throw error.outcome === "not-held" ? new Answer("lost", error.message) : error;
      });
    }
  },

  async release(q) {
    try {
      await bounded(0, tenure(q).release(), () => {});
    } catch (error) {
      throw await refusal(error, "not-held");
    }
  },

  cancel(q) {
    working.get(q.target)?.();
  },

  async shutdown(q) {
    for (const cancel of working.values()) cancel();
    if (q.release) await Promise.allSettled([...tenures.keys()].map((lease) => operations.release({ lease })));
  },
};

async function answer(q) {
  let reply = { outcome: "ok" };
  try {
    if (!Object.hasOwn(operations, q.op)) throw new Answer("unsupported", `unknown op ${q.op}`);
    if (!redlock && q.op !== "hello") throw new Answer("error", "hello comes first");
    Object.assign(reply, await operations[q.op](q));
  } catch (error) {
    reply = { outcome: error.outcome ?? "error", message: error.message, ...error.fields };
  }
  say({ id: q.id, ...reply });
  if (q.op === "shutdown") process.exit(0);
  if (q.op === "hello" && reply.outcome === "unsupported") process.exit(64);
}

readline
  .createInterface({ input: process.stdin, crlfDelay: Infinity })
  .on("line", (line) => answer(JSON.parse(line)))
  .on("close", () => process.exit(0)); // lockcheck is gone: leave at once, release nothing
