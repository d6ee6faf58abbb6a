// bee-queue: jobs with results, progress, delays, retries, failures, batches, and jobs that stall.

const assert = require("node:assert/strict");
const { setTimeout: sleep } = require("node:timers/promises");
const Queue = require("bee-queue");
const Redis = require("ioredis");

const redis = { host: "127.0.0.1", port: Number(process.env.INDELIBLE_PORT) };

function finished(job) {
  return new Promise((resolve, reject) => {
    job.on("succeeded", resolve);
    job.on("failed", reject);
  });
}

async function waitUntil(condition) {
  const deadline = Date.now() + 60_000;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, "the condition did not come true");
    await sleep(10);
  }
}

// Listens before the job is sent, that nothing is missed.
async function sent(job) {
  const result = finished(job);
  await job.save();
  return result;
}

async function main() {
  const adding = new Queue("adding", { redis, activateDelayedJobs: true });
  adding.process(4, async (job) => {
    if (job.data.fails) throw new Error("never");
    job.reportProgress(50);
    return job.data.a + job.data.b;
  });
  const numbers = [...Array(50).keys()];
  assert.deepEqual(
    await Promise.all(numbers.map((n) => sent(adding.createJob({ a: n, b: 1 })))),
    numbers.map((n) => n + 1),
  );
  const begin = Date.now();
  assert.equal(await sent(adding.createJob({ a: 3, b: 4 }).delayUntil(Date.now() + 500)), 7);
  assert.ok(Date.now() - begin >= 499);
  await assert.rejects(sent(adding.createJob({ fails: true })), /never/);

  const batch = [1, 2, 3].map((n) => adding.createJob({ a: n, b: n }));
  const batched = Promise.all(batch.map(finished));
  assert.equal((await adding.saveAll(batch)).size, 0);
  assert.deepEqual(await batched, [2, 4, 6]);
  await waitUntil(async () => (await adding.checkHealth()).succeeded === 54);
  assert.equal((await adding.getJobs("failed", { size: 10 })).length, 1);

  const retrying = new Queue("retrying", { redis, activateDelayedJobs: true });
  let tries = 0;
  retrying.process(async () => {
    tries += 1;
    if (tries < 3) throw new Error("not yet");
    return tries;
  });
  const retried = retrying.createJob({}).retries(3).backoff("fixed", 50);
  assert.equal(await new Promise((resolve) => retried.on("succeeded", resolve).save()), 3);

  // A job that a worker took and then was heard of no more.
  const stalling = new Queue("stalling", { redis, stallInterval: 100 });
  const job = await stalling.createJob({}).save();
  const client = new Redis(redis);
  assert.equal(await client.rpoplpush("bq:stalling:waiting", "bq:stalling:active"), job.id);
  client.disconnect();
  const again = new Promise((resolve) => stalling.process(async (taken) => resolve(taken.id)));
  stalling.checkStalledJobs(100);
  assert.equal(await again, job.id);

  await Promise.all([adding, retrying, stalling].map((queue) => queue.close(5000)));
  console.log(`bee-queue ${require("bee-queue/package.json").version}: passed`);
}

require("./ended")(main);
