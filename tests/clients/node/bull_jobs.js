// Bull: jobs with results, progress, delays, priorities, retries, repetition, a rate limit, pause, and stalled jobs.

const assert = require("node:assert/strict");
const { setTimeout: sleep } = require("node:timers/promises");
require("node:events").defaultMaxListeners = 200;
const Queue = require("bull");

const port = Number(process.env.INDELIBLE_PORT);
const queues = [];

function queue(name, options = {}) {
  const made = new Queue(name, { redis: { host: "127.0.0.1", port }, ...options });
  queues.push(made);
  return made;
}

async function waitUntil(condition) {
  const deadline = Date.now() + 60_000;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, "the condition did not come true");
    await sleep(10);
  }
}

async function results() {
  const adding = queue("adding");
  adding.process(4, async (job) => {
    await job.progress(50);
    await job.log("half");
    return job.data.a + job.data.b;
  });
  const heard = [];
  adding.on("global:completed", (id, result) => heard.push(Number(result)));
  const jobs = await adding.addBulk([...Array(50).keys()].map((n) => ({ data: { a: n, b: 1 } })));
  assert.deepEqual(await Promise.all(jobs.map((job) => job.finished())), [...Array(50).keys()].map((n) => n + 1));
  await waitUntil(() => heard.length === 50);
  const begin = Date.now();
  assert.equal(await (await adding.add({ a: 3, b: 4 }, { delay: 500 })).finished(), 7);
  assert.ok(Date.now() - begin >= 500);
  assert.equal((await adding.getJobCounts()).completed, 51);
  assert.deepEqual((await adding.getJobLogs(jobs[0].id)).logs, ["half"]);
  assert.equal((await adding.clean(0, "completed")).length, 51);
  const once = await adding.add({ a: 1, b: 1 }, { jobId: "once", removeOnComplete: true });
  assert.equal(await once.finished(), 2);
}

async function orderAndPause() {
  const ordered = queue("ordered");
  await ordered.pause();
  for (const priority of [3, 1, 4, 2]) await ordered.add({ priority }, { priority });
  assert.equal((await ordered.getJobCounts()).paused, 4);
  const seen = [];
  ordered.process((job) => seen.push(job.data.priority));
  await ordered.resume();
  await waitUntil(() => seen.length === 4);
  assert.deepEqual(seen, [1, 2, 3, 4]);
}

async function failures() {
  const failing = queue("failing", { settings: { backoffStrategies: { soon: () => 20 } } });
  failing.process((job) => {
    if (job.attemptsMade < job.data.until) throw new Error("not yet");
    return job.attemptsMade;
  });
  const third = await failing.add({ until: 2 }, { attempts: 3, backoff: { type: "soon" } });
  assert.equal(await third.finished(), 2);
  const never = await failing.add({ until: 1 });
  await assert.rejects(never.finished(), /not yet/);
  assert.equal(await never.getState(), "failed");
  await never.retry();
  assert.equal(await never.finished(), 1);
}

async function repetitionAndLimit() {
  const repeating = queue("repeating");
  let times = 0;
  repeating.process(() => (times += 1));
  await repeating.add({}, { repeat: { every: 200, limit: 3 } });
  await waitUntil(() => times === 3);
  assert.equal((await repeating.getRepeatableJobs()).length, 1);
  await repeating.removeRepeatableByKey((await repeating.getRepeatableJobs())[0].key);
  assert.deepEqual(await repeating.getRepeatableJobs(), []);

  const limited = queue("limited", { limiter: { max: 2, duration: 300 } });
  const begin = Date.now();
  limited.process(() => {});
  const jobs = await Promise.all([...Array(6)].map(() => limited.add({})));
  await Promise.all(jobs.map((job) => job.finished()));
  assert.ok(Date.now() - begin >= 300, "six jobs, two in 300 ms");
}

async function stalled() {
  // The lock is not renewed, as if the worker had been killed.
  const settings = { lockDuration: 100, lockRenewTime: 60_000, stalledInterval: 100, maxStalledCount: 5 };
  const stalling = queue("stalling", { settings });
  let runs = 0;
  stalling.process(2, async () => {
    runs += 1;
    if (runs === 1) await sleep(1000);
    return runs;
  });
  await stalling.add({});
  await waitUntil(() => runs >= 2);
}

async function main() {
  await results();
  await orderAndPause();
  await failures();
  await repetitionAndLimit();
  await stalled();
  await queue("adding").obliterate({ force: true });
  console.log(`bull ${require("bull/package.json").version}: passed`);
}

require("./ended")(main);
