// rate-limiter-flexible: points taken, given back, blocked and forgotten; bursts, unions, a queue; by Lua, and without.

const assert = require("node:assert/strict");
const Redis = require("ioredis");
const limiters = require("rate-limiter-flexible");

async function refused(promise) {
  try {
    await promise;
  } catch (error) {
    if (error instanceof Error) throw error;
    return error;
  }
  assert.fail("more was taken than there was");
}

async function main() {
  const storeClient = new Redis({ host: "127.0.0.1", port: Number(process.env.INDELIBLE_PORT), enableOfflineQueue: true });

  for (const Limiter of [limiters.RateLimiterRedis, limiters.RateLimiterRedisNonAtomic]) {
    const limiter = new Limiter({ storeClient, keyPrefix: Limiter.name, points: 5, duration: 3600, blockDuration: 7200 });
    assert.equal(await limiter.get("k"), null);
    for (let left = 4; left >= 0; left--) assert.equal((await limiter.consume("k")).remainingPoints, left);
    const refusal = await refused(limiter.consume("k"));
    assert.equal(refusal.remainingPoints, 0);
    assert.ok(refusal.msBeforeNext > 3_600_000 && refusal.msBeforeNext <= 7_200_000, "it is blocked");
    assert.equal((await limiter.get("k")).consumedPoints, 6);
    assert.equal(await limiter.delete("k"), true);
    assert.equal((await limiter.penalty("k", 3)).consumedPoints, 3);
    assert.equal((await limiter.reward("k", 2)).consumedPoints, 1);
    assert.equal((await limiter.consume("k", 4)).remainingPoints, 0);
    await limiter.block("other", 100);
    assert.ok((await refused(limiter.consume("other"))).msBeforeNext > 90_000);
    await limiter.set("set", 2, 100);
    assert.equal((await limiter.consume("set")).remainingPoints, 2);
  }

  // Many at once: exactly as many as there are points.
  const many = new limiters.RateLimiterRedis({ storeClient, keyPrefix: "many", points: 50, duration: 3600 });
  const outcomes = await Promise.allSettled([...Array(200)].map(() => many.consume("k")));
  assert.equal(outcomes.filter((outcome) => outcome.status === "fulfilled").length, 50);

  const burst = new limiters.BurstyRateLimiter(
    new limiters.RateLimiterRedis({ storeClient, keyPrefix: "steady", points: 2, duration: 3600 }),
    new limiters.RateLimiterRedis({ storeClient, keyPrefix: "burst", points: 3, duration: 3600 }),
  );
  for (let n = 0; n < 5; n++) await burst.consume("k");
  await refused(burst.consume("k"));

  const union = new limiters.RateLimiterUnion(
    new limiters.RateLimiterRedis({ storeClient, keyPrefix: "narrow", points: 1, duration: 3600 }),
    new limiters.RateLimiterRedis({ storeClient, keyPrefix: "wide", points: 9, duration: 3600 }),
  );
  assert.equal((await union.consume("k")).wide.remainingPoints, 8);
  assert.ok("narrow" in (await refused(union.consume("k"))));

  const queue = new limiters.RateLimiterQueue(
    new limiters.RateLimiterRedis({ storeClient, keyPrefix: "queue", points: 2, duration: 1 }),
  );
  for (let n = 0; n < 3; n++) await queue.removeTokens(1, "k");

  storeClient.disconnect();
  console.log(`rate-limiter-flexible ${require("rate-limiter-flexible/package.json").version}: passed`);
}

require("./ended")(main);
