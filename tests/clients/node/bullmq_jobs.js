// BullMQ: jobs with results, events out of a stream, delays, retries, priorities, flows, and a stream that is trimmed.

const assert = require("node:assert/strict");
require("node:events").defaultMaxListeners = 200;
const { Queue, Worker, QueueEvents, FlowProducer } = require("bullmq");

const connection = { host: "127.0.0.1", port: Number(process.env.INDELIBLE_PORT) };

async function main() {
  const queue = new Queue("adding", { connection, streams: { events: { maxLen: 100 } } });
  const events = new QueueEvents("adding", { connection });
  await events.waitUntilReady();
  const heard = new Set();
  events.on("completed", ({ jobId }) => heard.add(jobId));
  const tries = new Map();
  const worker = new Worker(
    "adding",
    async (job) => {
      const tried = (tries.get(job.id) ?? 0) + 1;
      tries.set(job.id, tried);
      if (job.name === "third" && tried < 3) throw new Error("not yet");
      if (job.name === "never") throw new Error("never");
      await job.updateProgress(50);
      return job.data.a + job.data.b;
    },
    { connection, concurrency: 4 },
  );
  await worker.waitUntilReady();
  const jobs = await queue.addBulk([...Array(60).keys()].map((a) => ({ name: "add", data: { a, b: 1 } })));
  const results = await Promise.all(jobs.map((job) => job.waitUntilFinished(events, 60_000)));
  assert.deepEqual(results, [...Array(60).keys()].map((a) => a + 1));
  const later = await queue.add("add", { a: 2, b: 2 }, { delay: 300, priority: 3 });
  assert.equal(await later.waitUntilFinished(events, 60_000), 4);
  const third = await queue.add("third", { a: 3, b: 3 }, { attempts: 3 });
  assert.equal(await third.waitUntilFinished(events, 60_000), 6);
  const never = await queue.add("never", {});
  await assert.rejects(never.waitUntilFinished(events, 60_000), /never/);
  const flow = new FlowProducer({ connection });
  const tree = await flow.add({
    name: "add",
    queueName: "adding",
    data: { a: 1, b: 1 },
    children: [{ name: "add", queueName: "adding", data: { a: 2, b: 3 } }],
  });
  assert.equal(await tree.job.waitUntilFinished(events, 60_000), 2);
  assert.deepEqual(Object.values(await tree.job.getChildrenValues()), [5]);
  assert.ok(heard.size >= 60);
  await queue.trimEvents(10);
  const client = await queue.client;
  assert.ok((await client.xlen("bull:adding:events")) <= 100);
  await Promise.all([worker.close(), events.close(), flow.close()]);
  await queue.obliterate({ force: true });
  await queue.close();
  const { version } = require("bullmq/package.json");
  console.log(`BullMQ ${version}: 60 jobs, events of a stream, delays, retries, a failure, a flow`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
