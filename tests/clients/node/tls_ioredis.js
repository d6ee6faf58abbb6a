// ioredis over TLS: with a certificate and without one, a large value both ways, commands in a row, a subscriber.

const assert = require("node:assert/strict");
const { execFileSync } = require("node:child_process");
const fs = require("node:fs");
const net = require("node:net");
const os = require("node:os");
const path = require("node:path");
const Redis = require("ioredis");

function freePort() {
  return new Promise((resolve) => {
    const probe = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address();
      probe.close(() => resolve(port));
    });
  });
}

async function main() {
  const place = fs.mkdtempSync(path.join(os.tmpdir(), "tls-ioredis-"));
  execFileSync(path.join(__dirname, "..", "certificates"), [place]);
  const file = (name) => path.join(place, name);
  const plain = new Redis({ port: Number(process.env.INDELIBLE_PORT) });
  const port = await freePort();
  const files = { "tls-cert-file": "server.crt", "tls-key-file": "server.key", "tls-ca-cert-file": "ca.crt" };
  await plain.config("SET", "tls-port", port, ...Object.entries(files).flatMap(([name, it]) => [name, file(it)]));
  const connect = (tls) => {
    const options = { port, tls: { ca: fs.readFileSync(file("ca.crt")), servername: "localhost", ...tls }, lazyConnect: true };
    const client = new Redis({ ...options, retryStrategy: null, maxRetriesPerRequest: 0 });
    client.on("error", () => {});
    return client;
  };

  const client = connect({ cert: fs.readFileSync(file("alice.crt")), key: fs.readFileSync(file("alice.key")) });
  assert.equal(await client.ping(), "PONG");
  const value = "x".repeat(5_000_000);
  assert.equal(await client.set("large", value), "OK");
  assert.equal(await client.get("large"), value);
  const replies = await Promise.all(Array.from({ length: 5000 }, () => client.incr("n")));
  assert.deepEqual(replies, Array.from({ length: 5000 }, (_, at) => at + 1));
  const subscriber = client.duplicate();
  const said = new Promise((resolve) => subscriber.on("message", (_, message) => resolve(message)));
  await subscriber.subscribe("news");
  assert.equal(await plain.publish("news", "said in plain"), 1);
  assert.equal(await said, "said in plain");

  await assert.rejects(connect({}).ping(), "without a certificate");
  await plain.config("SET", "tls-auth-clients", "no");
  const without = connect({});
  assert.equal(await without.ping(), "PONG");

  for (const it of [client, subscriber, without, plain]) it.disconnect();
  fs.rmSync(place, { recursive: true });
  console.log(`tls-ioredis: ioredis ${require("ioredis/package.json").version}, all as it should be`);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
