// Looks at the admin page in a real Chromium, and keeps what it saw as pictures in target/admin.
//
//   node tests/admin/look.mjs SERVER-COMMAND...      e.g. node tests/admin/look.mjs target/debug/indelible server
//
//   idle · load with compaction · recovery · full disk · failed devices · busy executor, each light and dark:
//     axe-core finds nothing in WCAG 2.2 A and AA · nothing is said on the console · nothing is loaded from elsewhere
//   and once: sign in and out by keys, the order of Tab, headings and landmarks, without script, in a narrow window,
//   refreshed by the script and paused; signed in and out from another address
//
// `tests/install-tools browser` puts what it needs below target/admin. Root and strace are needed for the disks; without
// them those pictures are left out, and said to be.

import { spawn, execFileSync } from "node:child_process";
import { createRequire } from "node:module";
import fs from "node:fs";
import net from "node:net";
import os from "node:os";
import path from "node:path";

const root = path.resolve(import.meta.dirname, "../..");
const out = path.join(root, "target/admin");
fs.mkdirSync(out, { recursive: true });
const require = createRequire(path.join(process.env.INDELIBLE_BROWSER_TOOLS ?? path.join(out, "node"), "index.js"));
const puppeteer = require("puppeteer-core");
const axe = fs.readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const program = process.argv.slice(2);
const scratch = fs.mkdtempSync(path.join(os.tmpdir(), "indelible-admin-"));
const cleanups = [];
let failures = 0;
let shots = 0;
const leftOut = [];

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const check = (isGood, what) => {
  if (!isGood) {
    failures += 1;
    console.log(`FAILED: ${what}`);
  }
};

async function until(what, condition, patience = 60_000) {
  const begun = Date.now();
  for (;;) {
    if (await condition()) return;
    if (Date.now() - begun > patience) throw new Error(`${what} did not come true`);
    await sleep(50);
  }
}

function freePort() {
  return new Promise((resolve) => {
    const server = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address();
      server.close(() => resolve(port));
    });
  });
}

const encode = (args) => `*${args.length}\r\n${args.map((it) => `$${Buffer.byteLength(it)}\r\n${it}\r\n`).join("")}`;

// Sends commands and waits until so many replies have begun to come, or until the connection ends.
function send(port, commands, { wait = true } = {}) {
  return new Promise((resolve) => {
    const socket = net.connect(port, "127.0.0.1");
    let text = "";
    socket.on("data", (data) => (text += data));
    socket.on("error", () => resolve(text));
    socket.on("close", () => resolve(text));
    socket.write(commands.map(encode).join("") + (wait ? encode(["QUIT"]) : ""));
    if (!wait) resolve(socket);
  });
}

class Server {
  host = "127.0.0.1";

  static async start(name, options = [], dir = path.join(scratch, name)) {
    const server = new Server();
    server.dir = dir;
    fs.mkdirSync(dir, { recursive: true });
    server.options = options;
    server.port = await freePort();
    server.adminPort = await freePort();
    await server.begin();
    return server;
  }

  async begin({ isWaiting = true } = {}) {
    const [command, ...words] = program;
    const log = fs.openSync(path.join(scratch, `log-${this.port}.txt`), "a");
    const args = ["--port", this.port, "--dir", this.dir, "--admin-port", this.adminPort, ...this.options];
    this.child = spawn(command, [...words, ...args.map(String)], { stdio: ["ignore", log, log], cwd: scratch });
    this.ended = new Promise((resolve) => this.child.on("exit", resolve));
    const child = this.child;
    cleanups.push(() => child.kill("SIGKILL"));
    await until("the page", () => this.isOpen(this.adminPort));
    if (isWaiting) await until("the server", async () => (await send(this.port, [["PING"]])).startsWith("+PONG"));
    this.token = fs.readFileSync(path.join(this.dir, "admin-token"), "utf8").trim();
  }

  isOpen(port) {
    return new Promise((resolve) => {
      const socket = net.connect(port, "127.0.0.1");
      socket.on("connect", () => resolve(true) || socket.destroy());
      socket.on("error", () => resolve(false));
    });
  }

  async kill() {
    this.child.kill("SIGKILL");
    await this.ended;
  }

  get url() {
    return `http://${this.host}:${this.adminPort}/`;
  }

  async page() {
    const answer = await fetch(this.url, { headers: { authorization: `Bearer ${this.token}` } });
    return answer.text();
  }

  thread(name) {
    const tasks = `/proc/${this.child.pid}/task`;
    return fs.readdirSync(tasks).find((task) => fs.readFileSync(`${tasks}/${task}/comm`, "utf8").trim() === name);
  }

  // Makes system calls of a thread fail or wait; ends with the function that it returns.
  async fault(thread, what) {
    const call = what.split(":")[0];
    const args = ["-p", this.thread(thread), "-e", `trace=${call}`, "-e", `inject=${what}`];
    const tracer = spawn("strace", args, { stdio: ["ignore", "ignore", "pipe"] });
    cleanups.push(() => tracer.kill("SIGTERM"));
    await new Promise((resolve, reject) => {
      tracer.stderr.once("data", resolve);
      tracer.once("exit", () => reject(new Error("strace has ended")));
    });
    tracer.stderr.resume();
    return () => tracer.kill("SIGTERM");
  }
}

const can = (command, args) => {
  try {
    execFileSync(command, args, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
};

const browser = await puppeteer.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--force-prefers-reduced-motion"],
});
cleanups.push(() => browser.process()?.kill("SIGKILL"));

// A window that tells of everything that it should not do.
async function open(server, { scheme = "light", width = 1280, script = true } = {}) {
  const context = await browser.createBrowserContext();
  const page = await context.newPage();
  await page.setViewport({ width, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  await page.setJavaScriptEnabled(script);
  page.on("console", (said) => {
    // The 401 of the page without a session is told there, and that a header is for what is encrypted only.
    const isExpected = /401|Cross-Origin-Opener-Policy header has been ignored/.test(said.text());
    if (!isExpected) check(said.type() !== "error", `console: ${said.text()}`);
  });
  page.on("pageerror", (error) => check(false, `script: ${error.message}`));
  page.on("request", (request) => {
    const url = request.url();
    check(url.startsWith(server.url) || url.startsWith("data:"), `loaded from elsewhere: ${url}`);
  });
  return page;
}

async function signIn(page, server) {
  await page.goto(server.url);
  await page.bringToFront();
  await page.waitForFunction(() => document.activeElement.id === "token");
  await page.keyboard.type(server.token);
  await Promise.all([page.waitForNavigation(), page.keyboard.press("Enter")]);
  check((await page.title()).includes("Indelible"), `signed in: ${await page.$eval("body", (it) => it.textContent)}`);
}

async function keep(page, name) {
  shots += 1;
  await page.screenshot({ path: path.join(out, `${name}.png`), fullPage: true });
}

async function accessible(page, name) {
  await page.evaluate(axe);
  const found = await page.evaluate(async () => {
    const tags = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"];
    const result = await globalThis.axe.run(document, { runOnly: { type: "tag", values: tags } });
    return result.violations.map((it) => `${it.id}: ${it.help}: ${it.nodes.slice(0, 3).map((node) => node.html).join(" | ")}`);
  });
  for (const violation of found) check(false, `${name}: ${violation}`);
}

// A scene as it is seen: light and dark, each without violations.
async function look(server, name, expected, { schemes = ["light", "dark"], field = null } = {}) {
  for (const scheme of schemes) {
    const page = await open(server, { scheme });
    await signIn(page, server);
    // Seen while it is so: the script reads the page again.
    if (field) await page.waitForSelector(`[data-field=${field}][value="1"]`, { timeout: 60_000 });
    const text = await page.$eval("main", (main) => main.textContent);
    for (const words of expected) check(text.includes(words), `${name} says: ${words}`);
    // What it says changes under axe otherwise.
    await page.click("#pause");
    await accessible(page, `${name}, ${scheme}`);
    await keep(page, scheme === "light" ? name : `${name}-dark`);
    await page.browserContext().close();
  }
  console.log(`${name}: seen`);
}

async function idle() {
  const server = await Server.start("idle", ["--slowlog-log-slower-than", "300", "--log-index", "yes"]);
  const sets = Array.from({ length: 2000 }, (_, at) => ["SET", `user:${at % 700}`, "x".repeat(50 + (at % 300))]);
  await send(server.port, [...sets, ["BACKUP", "CREATE", "monday"], ["SET", "<script>alert(1)</script>", "x"]]);
  await send(server.port, [["FLUSHALL"], ...sets.slice(0, 900), ["BACKUP", "CREATE", "tuesday"], ["BGSAVE"]]);
  await send(server.port, [["EVAL", "local x = 0 for i = 1, 300000 do x = x + i end return x", "0"]]);
  const client = await send(server.port, [["CLIENT", "SETNAME", "checkout"]], { wait: false });
  await sleep(1500);
  const form = await open(server);
  await form.goto(server.url);
  check(!(await form.content()).toLowerCase().includes("indelible"), "the form tells nothing");
  await accessible(form, "sign-in");
  await keep(form, "sign-in");
  await form.keyboard.type("wrong");
  await Promise.all([form.waitForNavigation(), form.keyboard.press("Enter")]);
  check((await form.$eval("[role=alert]", (it) => it.textContent)).includes("not the token"), "a wrong token is told");
  await form.browserContext().close();
  await look(server, "idle", ["Your data is safe, and the server is well", "monday", "FLUSHALL", "checkout"]);

  const page = await open(server);
  await signIn(page, server);
  const order = [];
  for (let at = 0; at < 14; at += 1) {
    await page.keyboard.press("Tab");
    order.push(await page.evaluate(() => document.activeElement.textContent.slice(0, 20) || document.activeElement.tagName));
  }
  check(order[0] === "Skip to the figures" && order.includes("Pause") && order.includes("Sign out"), `Tab: ${order}`);
  const tree = await page.accessibility.snapshot({ interestingOnly: false });
  const roles = new Map();
  const walk = (node) => {
    roles.set(node.role, [...(roles.get(node.role) ?? []), node.name ?? ""]);
    (node.children ?? []).forEach(walk);
  };
  walk(tree);
  for (const role of ["main", "banner", "navigation", "heading", "table", "status"]) check(roles.has(role), `role ${role}`);
  const unnamed = [...(roles.get("image") ?? []), ...(roles.get("img") ?? [])].filter((name) => !name);
  check(unnamed.length === 0, "every picture says what it shows");
  const levels = await page.$$eval("h1,h2,h3", (all) => all.map((it) => Number(it.tagName[1])));
  check(levels.every((level, at) => at === 0 || level <= levels[at - 1] + 1), `headings: ${levels}`);
  const uptime = () => page.$eval("[data-field=uptime_in_seconds]", (it) => it.getAttribute("value"));
  const before = await uptime();
  await until("the script refreshes", async () => (await uptime()) !== before, 15_000);
  // What another scene has left there: the title says how the server is, and sections come when there is an answer.
  await page.evaluate(() => {
    document.title = "(!) Act now: Indelible";
    document.querySelector("nav ul").replaceChildren();
  });
  const head = () => page.evaluate(() => [document.title, document.querySelectorAll("nav a").length].join());
  await until("the script refreshes title and sections", async () => (await head()) === "Indelible,8", 15_000);
  await page.click("#pause");
  const paused = await uptime();
  await sleep(4500);
  check((await uptime()) === paused, "Pause pauses");
  const out = await page.$$("form[action='/logout'] button");
  await Promise.all([page.waitForNavigation(), out[0].press("Enter")]);
  check((await page.title()) === "Sign in", "signed out");
  await page.browserContext().close();

  const plain = await open(server, { script: false });
  await signIn(plain, server);
  check((await plain.$eval("h2", (it) => it.textContent)).includes("safe"), "without script");
  await plain.browserContext().close();

  for (const [width, name] of [[390, "idle-phone"], [320, "idle-zoomed"]]) {
    const narrow = await open(server, { width });
    await signIn(narrow, server);
    const overflow = await narrow.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    check(overflow <= 0, `${name}: ${overflow} pixels wider than the window`);
    await keep(narrow, name);
    await narrow.browserContext().close();
  }
  client.destroy();
  await server.kill();
}

// From another machine: by HTTP to an address that a browser trusts less than the loopback's.
async function away() {
  const all = Object.values(os.networkInterfaces()).flat();
  const address = all.find((it) => it.family === "IPv4" && !it.internal)?.address;
  if (!address) {
    leftOut.push("away (an address besides the loopback's)");
    return;
  }
  const server = await Server.start("away", ["--admin-bind", "0.0.0.0"]);
  server.host = address;
  const page = await open(server);
  await signIn(page, server);
  check((await page.$eval("h2", (it) => it.textContent)).includes("safe"), "signed in from away");
  const out = await page.$("form[action='/logout'] button");
  await Promise.all([page.waitForNavigation(), out.press("Enter")]);
  check((await page.title()) === "Sign in", "signed out from away");
  await page.browserContext().close();
  await server.kill();
  console.log("away: seen");
}

async function load() {
  const options = ["--log-segment-bytes", "1mb", "--log-compaction-invalid-min", "8", "--appendfsync", "always"];
  const server = await Server.start("load", [...options, "--log-compaction-bytes-per-second", "300kb"]);
  let isEnding = false;
  let pause = 0;
  const value = "v".repeat(900);
  const writer = async (number) => {
    for (let at = 0; !isEnding; at += 1) {
      const batch = Array.from({ length: 16 }, (_, i) => ["SET", `key:${(at * 16 + i) % 3000}:${number}`, value]);
      await send(server.port, [...batch, ["GET", `key:${at}:0`], ["HINCRBY", "counts", `w${number}`, "1"]]);
      await sleep(pause);
    }
  };
  const writers = Array.from({ length: 4 }, (_, number) => writer(number));
  const watcher = await open(server);
  await signIn(watcher, server);
  const isCompacting = async () => /value="1" data-field="redo_compacting"/.test(await server.page());
  await until("a compaction", isCompacting);
  await sleep(8000);
  await keep(watcher, "load-curves");
  await watcher.browserContext().close();
  // So little garbage that compaction keeps to its rate.
  pause = 250;
  await look(server, "compaction", ["Compaction: at work"], { field: "redo_compacting" });
  isEnding = true;
  await Promise.all(writers);
  await server.kill();
}

async function recovery() {
  const server = await Server.start("recovery", ["--log-index", "yes", "--log-index-cut-bytes", "1mb", "--appendfsync", "no"]);
  for (let part = 0; part < 20; part += 1) {
    await send(server.port, Array.from({ length: 4000 }, (_, at) => ["SET", `key:${part}:${at}`, "x".repeat(60)]));
  }
  await until("a cut of the index", async () => {
    const info = await send(server.port, [["INFO", "redo"]]);
    return /redo_index_cut_lsn:[1-9]/.test(info) && info.includes("redo_index_usable:1");
  });
  await server.kill();
  server.options.push("--debug-restore-delay-ms", "600000");
  await server.begin();
  await send(server.port, Array.from({ length: 300 }, (_, at) => ["GET", `key:1:${at}`]));
  await sleep(1200);
  await look(server, "recovery", ["restoring", "keys are not back"]);
  await server.kill();
}

async function loading() {
  const server = await Server.start("loading", ["--log-index", "no", "--appendfsync", "no"]);
  for (let part = 0; part < 75; part += 1) {
    await send(server.port, Array.from({ length: 8000 }, (_, at) => ["SET", `key:${part}:${at}`, "x".repeat(40)]));
  }
  await server.kill();
  await server.begin({ isWaiting: false });
  const page = await open(server);
  await signIn(page, server);
  const text = await page.$eval("main", (main) => main.textContent);
  if (text.includes("The data is being loaded")) await keep(page, "loading");
  else leftOut.push("loading (it was faster)");
  await page.browserContext().close();
  await server.kill();
}

async function fullDisk() {
  const image = path.join(scratch, "disk.img");
  const mounted = path.join(scratch, "mounted");
  fs.mkdirSync(mounted);
  fs.closeSync(fs.openSync(image, "w"));
  fs.truncateSync(image, 64 << 20);
  if (!can("mkfs.ext4", ["-q", "-m", "0", image]) || !can("mount", ["-o", "loop", image, mounted])) {
    leftOut.push("full disk (root and loop devices)");
    return;
  }
  cleanups.push(() => can("umount", ["-l", mounted]));
  const options = ["--appendfsync", "always", "--log-segment-bytes", "2mb"];
  const server = await Server.start("full", options, path.join(mounted, "data"));
  const value = "x".repeat(16 << 10);
  await until("a full disk", async () => {
    const sets = Array.from({ length: 100 }, (_, at) => ["SET", `key:${at}:${Math.random()}`, value]);
    return (await send(server.port, sets)).includes("No space left on device");
  });
  fs.writeFileSync(path.join(mounted, "keep"), "");
  await sleep(1200);
  await look(server, "full-disk", ["Act now", "is full", "Writes are refused"]);
  await server.kill();
}

async function failedDevice() {
  if (!can("strace", ["-qq", "-o", "/dev/null", "true"])) {
    leftOut.push("failed devices (strace)");
    return;
  }
  const fault = "fdatasync,pwritev2,pwrite64:error=EIO";
  const devices = ["a", "b"].map((name) => path.join(scratch, "devices", name));
  devices.forEach((device) => fs.mkdirSync(device, { recursive: true }));
  const two = await Server.start("two", ["--appendfsync", "always", "--log-devices", ...devices]);
  await send(two.port, Array.from({ length: 300 }, (_, at) => ["SET", `key:${at}`, "x"]));
  let end = await two.fault("flusher-0", fault);
  await until("a failed device", async () => {
    await send(two.port, [["SET", "key", "y"]]);
    return (await two.page()).includes("Poisoned");
  });
  await look(two, "failed-device", ["Have a look", "has failed", "Poisoned"]);
  end();
  await two.kill();
  const one = await Server.start("one", ["--appendfsync", "always"]);
  await send(one.port, Array.from({ length: 300 }, (_, at) => ["SET", `key:${at}`, "x"]));
  end = await one.fault("flusher-0", "fdatasync,pwritev2,pwrite64:delay_enter=60000000");
  const held = await send(one.port, [["SET", "key", "z"]], { wait: false });
  await until("a device that hangs", async () => (await one.page()).includes("replies are held"));
  await look(one, "hanging-device", ["Act now", "replies are held: the log device"]);
  end();
  await until("an end of that", async () => !(await one.page()).includes("replies are held"));
  held.destroy();
  end = await one.fault("flusher-0", fault);
  const writer = await send(one.port, [["SET", "key", "y"]], { wait: false });
  await until("a failed device", async () => (await one.page()).includes("Poisoned"));
  await look(one, "failed-only-device", ["Act now", "Writes are refused"]);
  end();
  writer.destroy();
  const stop = await one.fault("indelible", "epoll_wait:delay_enter=20000000");
  await until("an old picture", async () => (await one.page()).includes("has not answered for"));
  await look(one, "busy", ["The server has not answered for"], { schemes: ["light"] });
  stop();
  await one.kill();
}

try {
  const scenes = { idle, away, load, recovery, loading, fullDisk, failedDevice };
  const only = process.env.SCENES?.split(",") ?? Object.keys(scenes);
  for (const name of only) await scenes[name]();
} catch (error) {
  failures += 1;
  console.log(error);
} finally {
  for (const cleanup of cleanups.reverse()) {
    try {
      cleanup();
    } catch {
      // It has ended already.
    }
  }
  await sleep(200);
  fs.rmSync(scratch, { recursive: true, force: true });
}
for (const what of leftOut) console.log(`left out: ${what}`);
console.log(`admin page: ${shots} pictures in target/admin, ${failures} failures`);
process.exit(failures === 0 ? 0 : 1);
