// socket.io's streams adapter: two servers that know each other through a stream, rooms, acknowledgements, and a client that comes back
// and gets what it has missed.

const assert = require("node:assert/strict");
const { createServer } = require("node:http");
const { once } = require("node:events");
const { Redis } = require("ioredis");
const { Server } = require("socket.io");
const { io: connect } = require("socket.io-client");
const { createAdapter } = require("@socket.io/redis-streams-adapter");

const port = Number(process.env.INDELIBLE_PORT);
const ended = require("./ended.js");

async function start() {
  const redis = new Redis(port);
  const http = createServer();
  const io = new Server(http, {
    adapter: createAdapter(redis, { heartbeatInterval: 500, heartbeatTimeout: 3000, readCount: 10, maxLen: 1000 }),
    connectionStateRecovery: { maxDisconnectionDuration: 60_000 },
  });
  io.on("connection", (socket) => {
    socket.on("join", (room, joined) => {
      socket.join(room);
      joined();
    });
  });
  http.listen(0, "127.0.0.1");
  await once(http, "listening");
  return { io, redis, url: `http://127.0.0.1:${http.address().port}` };
}

async function until(what, isSo) {
  const deadline = Date.now() + 30_000;
  while (!(await isSo())) {
    assert.ok(Date.now() < deadline, what);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function client(url, room) {
  const socket = connect(url, { transports: ["websocket"], reconnectionDelay: 100, reconnectionDelayMax: 200 });
  const heard = [];
  socket.on("news", (number, answer) => {
    heard.push(number);
    if (typeof answer === "function") answer(`${room} has ${number}`);
  });
  await once(socket, "connect");
  await socket.emitWithAck("join", room);
  return { socket, heard };
}

async function main() {
  const [one, two] = [await start(), await start()];
  const red = await client(one.url, "red");
  const blue = await client(two.url, "blue");
  // Each server knows the sockets of the other one.
  await until("both see both", async () => (await one.io.fetchSockets()).length === 2 && (await two.io.fetchSockets()).length === 2);
  for (let number = 0; number < 50; number += 1) two.io.emit("news", number);
  two.io.to("red").emit("news", 1000);
  one.io.except("red").emit("news", 2000);
  await until("all of it", () => red.heard.length === 51 && blue.heard.length === 51);
  const numbers = [...Array(50).keys()];
  assert.deepEqual(red.heard, [...numbers, 1000]);
  assert.deepEqual(blue.heard, [...numbers, 2000]);
  const answers = await one.io.timeout(20_000).emitWithAck("news", 7);
  assert.deepEqual(answers.sort(), ["blue has 7", "red has 7"]);

  // Cut off, and back: what came meanwhile is read from the stream.
  const id = red.socket.id;
  const back = once(red.socket, "connect");
  red.socket.io.engine.close();
  for (let number = 100; number < 110; number += 1) two.io.to("red").emit("news", number);
  await back;
  assert.ok(red.socket.recovered, "the session is there again");
  assert.equal(red.socket.id, id);
  await until("what was missed", () => red.heard.length >= 62);
  assert.deepEqual(red.heard.slice(52), [...Array(10).keys()].map((number) => 100 + number));
  assert.ok((await one.redis.xlen("socket.io")) > 60);

  for (const { socket } of [red, blue]) socket.close();
  for (const { io, redis } of [one, two]) {
    await io.close();
    redis.disconnect();
  }
  const { version } = require("@socket.io/redis-streams-adapter/package.json");
  console.log(`socket.io streams adapter ${version}: two servers, rooms, acknowledgements, a session that was cut off`);
}

ended(main);
