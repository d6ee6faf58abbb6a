"use strict";
(() => {
  const button = document.getElementById("pause");
  const said = document.getElementById("said");
  if (!button) return;
  let paused = false;
  let busy = false;
  button.hidden = false;
  button.addEventListener("click", () => {
    paused = !paused;
    button.setAttribute("aria-pressed", String(paused));
  });
  const lose = (why) => {
    if (said.dataset.lost !== why) said.textContent = why;
    said.dataset.lost = why;
  };
  const refresh = async () => {
    if (paused || busy || document.hidden || !document.getSelection().isCollapsed) return;
    busy = true;
    try {
      const answer = await fetch("/", { cache: "no-store", credentials: "same-origin" });
      if (answer.status === 401) {
        location.reload();
        return;
      }
      // Only a page whose session has ended gets it: it asks for the token when the others are done.
      if (answer.status === 429) {
        lose("Too many wrong tokens are being tried, and this page has to sign in again: these figures are old.");
        return;
      }
      if (!answer.ok) throw new Error(String(answer.status));
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.querySelector("main");
      document.title = page.title;
      const [sections, others] = [document, page].map((it) => it.querySelector("nav ul"));
      // What is in it is left alone as long as it is the same: it may have the focus.
      if (sections.innerHTML !== others.innerHTML) sections.replaceChildren(...others.childNodes);
      const old = document.querySelector("main");
      const focus = document.activeElement;
      const label = old.contains(focus) ? focus.getAttribute("aria-label") : null;
      const verdict = document.getElementById("verdict");
      const before = verdict ? verdict.textContent : "";
      const scrolled = new Map([...old.querySelectorAll(".wide")].map((it) => [it.getAttribute("aria-label"), it.scrollLeft]));
      old.replaceChildren(...fresh.childNodes);
      for (const it of old.querySelectorAll(".wide")) {
        it.scrollLeft = scrolled.get(it.getAttribute("aria-label")) || 0;
        if (label && it.getAttribute("aria-label") === label) it.focus({ preventScroll: true });
      }
      const now = document.getElementById("verdict");
      if (now && now.textContent !== before) said.textContent = now.textContent;
      else if (said.dataset.lost) said.textContent = "";
      delete said.dataset.lost;
    } catch (_) {
      lose("The server does not answer: these figures are old.");
    } finally {
      busy = false;
    }
  };
  setInterval(refresh, 2000);
})();
