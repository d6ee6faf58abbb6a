// Copies kept by ioredis' users: CLIENT TRACKING with a second connection that listens.

const assert = require("node:assert/strict");
const { after, test } = require("node:test");
const Redis = require("ioredis");

const options = { host: "127.0.0.1", port: Number(process.env.INDELIBLE_PORT) };
const clients = [];
after(() => clients.forEach((client) => client.disconnect()));

function connect() {
  const client = new Redis(options);
  clients.push(client);
  return client;
}

test("a listener is told of what another connection has read", async () => {
  const [client, listener, other] = [connect(), connect(), connect()];
  const id = await listener.client("ID");
  const told = [];
  listener.on("message", (channel, keys) => told.push([channel, `${keys}`]));
  await listener.subscribe("__redis__:invalidate");
  assert.equal(await client.client("TRACKING", "ON", "REDIRECT", id), "OK");
  assert.equal(await client.client("GETREDIR"), id);
  await other.set("node:a", "1");
  for (const value of ["2", "3", "4"]) {
    const before = told.length;
    await client.get("node:a");
    await other.set("node:a", value);
    const deadline = Date.now() + 10_000;
    while (told.length === before) {
      assert.ok(Date.now() < deadline, "nothing was told");
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    assert.deepEqual(told.at(-1), ["__redis__:invalidate", "node:a"]);
    assert.equal(await client.get("node:a"), value);
  }
});
