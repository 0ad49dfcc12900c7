// What scripts add to the pages: live rows, keys, counts in the title, notifications, running times. The pages work without.
import { $, $$, focus, list, notice, part, put, signedOut, tick, unsay } from "./pages-page.js";
import { follow } from "./pages-conversation.js";
import { chosen, count, field, go, hear, next, open, options, refresh, restore, rowOf, rows, seen, select } from "./pages-list.js";
import "./pages-decisions.js";

document.documentElement.classList.add("scripted");

// The connection. Hidden tabs give up their streams, all but one: browsers allow six connections to a server.
const connection = $("#connection");
let source = null, dropped = false;
const connected = (fine) => {
  if (!connection) return;
  connection.hidden = fine;
  put(connection, fine ? "" : "Connection lost: trying again");
};
document.addEventListener("htmx:sseOpen", (event) => {
  source = event.detail.source;
  connected(true);
  if (document.hidden) hide();
});
document.addEventListener("htmx:sseError", async (event) => {
  connected(false);
  if (event.detail.source?.readyState !== EventSource.CLOSED) return;
  const { response } = await part(location.href, { method: "HEAD" }).catch(() => ({ response: null }));
  if (response && (response.type === "opaqueredirect" || response.status === 401)) signedOut();
});
const KEPT = "holdfast-hidden-inbox";
let release = null, queued = new AbortController();
const held = () => new Promise((done) => { release = done; });
document.addEventListener("visibilitychange", () => {
  if (!document.hidden) {
    queued.abort();
    release?.();
    release = null;
    seen();
    resume();
    return;
  }
  hide();
});
function hide() {
  if (!source || release || dropped || !navigator.locks) return; // called again for a stream that opens in a hidden tab
  if (!list()) return drop();
  queued = new AbortController();
  navigator.locks.request(KEPT, { ifAvailable: true }, (lock) => {
    if (!document.hidden) return null;
    if (lock) return held();
    drop();
    navigator.locks.request(KEPT, { signal: queued.signal }, () => (document.hidden ? (resume(), held()) : null)).catch(() => null);
    return null;
  });
}
function drop() {
  source.close();
  dropped = true;
}
async function resume(tries = 0) { // tries until the list is there again, with its own stream
  if (!dropped) return;
  if (list() ? await refresh() : follow()) { dropped = false; return void hear(); }
  connected(false);
  setTimeout(() => resume(tries + 1), Math.min(2000 * 2 ** tries, 30000));
}

addEventListener("pageshow", () => $$("form[data-once]").forEach((form) => delete form.dataset.sent));
document.addEventListener("htmx:responseError", (event) => { if (event.detail.xhr.status === 401) signedOut(); });
document.addEventListener("htmx:sendError", () => notice("The server was not reached.", { key: "reach" }));
document.addEventListener("htmx:timeout", () => notice("The server has not answered.", { key: "reach" }));
document.addEventListener("htmx:afterOnLoad", () => unsay("reach"));

// Keys. Those that lead to a button act on the open call; if another row has the focus, they open its call first.
const help = $("#help");
const on = $("#keys-on");
if (on) {
  on.checked = localStorage.getItem("holdfast-keys") !== "off";
  on.addEventListener("change", () => localStorage.setItem("holdfast-keys", on.checked ? "on" : "off"));
  const button = $("#help-button");
  button.hidden = false;
  button.addEventListener("click", () => help.showModal());
}
const focused = () => document.activeElement?.closest?.("#rows > .row");
function move(by) {
  const all = rows().filter((row) => !row.hidden);
  if (!all.length) return;
  const current = focused() ?? (chosen() && rowOf(chosen()));
  const at = current ? all.indexOf(current) + by : by > 0 ? 0 : all.length - 1;
  $("a", all[Math.min(Math.max(at, 0), all.length - 1)]).focus();
}
const shown = (work) => async () => {
  const row = focused();
  if (row && row.dataset.id !== open()?.dataset.id) await go($("a", row));
  if (open() && (!chosen() || chosen() === open().dataset.id)) work();
};
const KEYS = {
  j: () => move(1), k: () => move(-1), n: next,
  a: shown(() => { const first = field(); if (first) first.focus(); else focus("#first-choice"); }),
  d: shown(() => focus("#reason") || focus("#notes")), e: shown(() => $("#edit")?.click()),
  "/": () => focus("#search"), "?": () => help?.showModal(),
  x: () => $("input", focused() ?? (chosen() && rowOf(chosen())) ?? document.createElement("p"))?.click(),
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || help?.open) return;
  const typing = event.target.matches?.("input:not([type=checkbox]), textarea, select");
  if (event.key === "Escape" && typing) { event.target.blur(); return; }
  const work = !typing && on?.checked && Object.hasOwn(KEYS, event.key) ? KEYS[event.key] : null;
  if (!work || (!list() && event.key !== "?")) return;
  event.preventDefault();
  work();
});

if (list()) {
  options();
  select(open()?.dataset.id);
  if (open()) restore(open().dataset.id);
}
count();
tick();
