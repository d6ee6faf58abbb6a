// ioredis used as applications use it: automatic pipelining, transactions, blocking, pub/sub, streams of
// scanned keys.

const assert = require("node:assert/strict");
const { after, before, beforeEach, test } = require("node:test");
const Redis = require("ioredis");

const options = { host: "127.0.0.1", port: Number(process.env.INDELIBLE_PORT) };
let client;

before(() => {
  client = new Redis({ ...options, enableAutoPipelining: true });
});
beforeEach(() => client.flushall());
after(() => client.disconnect());

async function waitUntil(condition) {
  const deadline = Date.now() + 10_000;
  while (!(await condition())) {
    assert.ok(Date.now() < deadline, "the condition did not come true");
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

test("values of every type", async () => {
  assert.equal(await client.set("k", "v", "EX", 100), "OK");
  assert.equal(await client.get("k"), "v");
  assert.equal(await client.get("missing"), null);
  assert.deepEqual(await client.getBuffer("k"), Buffer.from("v"));
  await client.hset("h", { a: 1, b: "two" });
  assert.deepEqual(await client.hgetall("h"), { a: "1", b: "two" });
  await client.rpush("l", 1, 2, 3);
  assert.deepEqual(await client.lrange("l", 0, -1), ["1", "2", "3"]);
  await client.sadd("s", "x", "y");
  assert.deepEqual((await client.smembers("s")).sort(), ["x", "y"]);
  await client.zadd("z", 1, "a", 2.5, "b");
  assert.deepEqual(await client.zrange("z", 0, -1, "WITHSCORES"), ["a", "1", "b", "2.5"]);
  assert.ok((await client.ttl("k")) > 90);
});

test("a thousand commands at once", async () => {
  const replies = await Promise.all(Array.from({ length: 1000 }, () => client.incr("n")));
  assert.deepEqual(replies.sort((a, b) => a - b), Array.from({ length: 1000 }, (_, i) => i + 1));
});

test("pipelines and transactions", async () => {
  const pipeline = client.pipeline().set("a", 1).incr("a").lpush("a", "x");
  const replies = await pipeline.exec();
  assert.deepEqual(replies.slice(0, 2), [[null, "OK"], [null, 2]]);
  assert.match(replies[2][0].message, /^WRONGTYPE/);
  const results = await client.multi().set("t", "1").get("t").exec();
  assert.deepEqual(results, [[null, "OK"], [null, "1"]]);
  const own = new Redis(options);
  await own.watch("a");
  await client.set("a", "changed");
  assert.equal(await own.multi().set("a", "lost").exec(), null);
  own.disconnect();
});

test("blocking until another client pushes", async () => {
  const consumer = new Redis(options);
  const popped = consumer.blpop("queue", 0);
  await waitUntil(async () => /blocked_clients:1\r/.test(await client.info("clients")));
  await client.rpush("queue", "job");
  assert.deepEqual(await popped, ["queue", "job"]);
  consumer.disconnect();
});

test("publish and subscribe", async () => {
  const subscriber = new Redis(options);
  const messages = [];
  subscriber.on("message", (channel, message) => messages.push([channel, message]));
  subscriber.on("pmessage", (pattern, channel, message) => messages.push([pattern, channel, message]));
  await subscriber.subscribe("news");
  await subscriber.psubscribe("sp*");
  assert.equal(await client.publish("news", "hello"), 1);
  assert.equal(await client.publish("sport", "goal"), 1);
  await waitUntil(() => messages.length === 2);
  assert.deepEqual(messages, [["news", "hello"], ["sp*", "sport", "goal"]]);
  subscriber.disconnect();
});

test("a stream of scanned keys", async () => {
  await client.mset(Object.fromEntries(Array.from({ length: 500 }, (_, i) => [`key:${i}`, i])));
  const keys = new Set();
  for await (const batch of client.scanStream({ match: "key:*", count: 33 })) {
    batch.forEach((key) => keys.add(key));
  }
  assert.equal(keys.size, 500);
});

test("binary values and large ones", async () => {
  const bytes = Buffer.from(Array.from({ length: 256 }, (_, i) => i));
  await client.set("bytes", bytes);
  assert.deepEqual(await client.getBuffer("bytes"), bytes);
  const large = "y".repeat(4 << 20);
  await client.set("large", large);
  assert.equal(await client.get("large"), large);
});

test("reconnecting after being killed", async () => {
  const own = new Redis({ ...options, db: 2, connectionName: "own" });
  await own.set("k", "v");
  const id = await own.client("ID");
  await client.client("KILL", "ID", id);
  await waitUntil(async () => (await own.get("k")) === "v");
  assert.equal(await own.client("GETNAME"), "own");
  own.disconnect();
});

test("errors are errors", async () => {
  await assert.rejects(client.call("NONSENSE"), /unknown command/);
  await client.set("s", "x");
  await assert.rejects(client.incr("s"), /not an integer/);
});
