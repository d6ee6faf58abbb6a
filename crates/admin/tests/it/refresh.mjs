// The script of an open page, with a document that is none: node refresh.mjs ADDRESS COOKIE, the script on its input.
//
// Prints what the page says each time that changes, and "reload" when it loads itself again; then it ends.

import fs from "node:fs";

const [address, cookie] = process.argv.slice(2);
const element = () => ({ dataset: {}, textContent: "", hidden: true, addEventListener() {}, setAttribute() {} });
const elements = { pause: element(), said: element() };
let refresh;
let isReloaded = false;
globalThis.document = {
  hidden: false,
  getElementById: (id) => elements[id] ?? null,
  getSelection: () => ({ isCollapsed: true }),
};
globalThis.location = { reload: () => (isReloaded = true) };
globalThis.setInterval = (run) => (refresh = run);
const realFetch = globalThis.fetch;
globalThis.fetch = (path, options) =>
  realFetch(new URL(path, address), { ...options, headers: { cookie, connection: "close" } });
new Function(fs.readFileSync(0, "utf8"))();
let before = "";
for (;;) {
  await refresh();
  const { textContent } = elements.said;
  if (textContent !== before) console.log(textContent);
  before = textContent;
  // It is loaded again only after it has said something.
  if (isReloaded && before) break;
  isReloaded = false;
}
console.log("reload");
