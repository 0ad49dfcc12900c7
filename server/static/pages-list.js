// The list of the inbox: its rows as they come and go, its filters, and one call beside it.
import { $, $$, clock, fill, later, list, made, notice, parsed, part, put, signedOut, tick, unsay } from "./pages-page.js";

// The list. New rows wait while the pointer is in it, so that nothing moves under it; without a pointer they always wait.
export const rows = () => $$("#rows > .row");
export const rowOf = (id) => document.getElementById(`row-${id}`);
const waiting = new Map();
const touch = matchMedia("(hover: none)");
let unseen = 0;
export const open = () => $("article.call");
export function options() { // also offers agents and tools of rows, which the server's own app may not have
  for (const [name, found] of [["agent", ".of bdi:first-child"], ["tool", ".line code"]]) {
    const select = $(`.filters select[name=${name}]`);
    const known = new Set($$("option", select).map((option) => option.value));
    for (const text of new Set($$(`#rows ${found}`).map((element) => element.textContent))) {
      if (!known.has(text) && !text.endsWith("…")) select.append(new Option(text, text));
    }
  }
}
export function seen() { // the new rows, in a tab that shows again
  unseen = 0;
  count();
}
export function count() {
  if (!list()) return;
  const number = $$("#rows > .row:not(.settled)").length;
  const shown = $("[data-count]");
  if (shown) put(shown, String(number));
  const fresh = unseen ? `, ${unseen} new` : "";
  document.title = `(${number}${fresh}) Inbox – Holdfast`;
  const arrived = $("#arrived");
  arrived.hidden = waiting.size === 0;
  put(arrived, waiting.size === 1 ? "1 more waits: show it" : `${waiting.size} more wait: show them`);
  const empty = $("#empty");
  if (empty && rows().length) empty.remove();
}
const order = (row) => [Number(row.dataset.expires ?? Infinity), Number(row.dataset.created)];
function insert(row) {
  if (document.getElementById(row.id)) return;
  const [expires, created] = order(row);
  const next = rows().find((one) => {
    const [theirs, since] = order(one);
    return theirs > expires || (theirs === expires && since > created);
  });
  $("#rows").insertBefore(row, next ?? null);
}
function show() {
  for (const row of waiting.values()) insert(row);
  waiting.clear();
  if (open() && !chosen()) select(open().dataset.id);
  count();
  tick();
}
const busy = () => Boolean(list()?.matches(":hover")) || (touch.matches && rows().length > 0);
const rowIn = (text) => parsed(text).firstElementChild;
function arrive({ id, row, says }) {
  if (rowOf(id) || waiting.has(id)) return;
  const element = rowIn(row);
  if (!element) return;
  waiting.set(id, element);
  if (document.hidden) {
    unseen += 1;
    if (window.Notification?.permission === "granted" && localStorage.getItem("holdfast-notify") === "on") {
      new Notification("A call waits for a decision", { body: says, tag: "holdfast" });
    }
  }
  if (busy()) count(); else show();
}
export function said(row, text, at) { // sets the text below a row's lines
  $(".ended", row)?.remove();
  if (!text) return;
  const ended = made("span", { classes: "ended", text });
  if (at) {
    const when = document.createElement("time");
    when.dataset.at = at;
    ended.append(", ", when);
  }
  $("a", row).append(ended);
  tick();
}
export function note(row, text) { // sets the line of what people did with a row's call
  $(".noted", row)?.remove();
  if (text) $(".of", row).before(made("span", { classes: "noted", text }));
}
const hidden = new Map(); // until when this person hides calls, as far as this page has heard
function hide(id, until) { // draws the list again now, and once the call is to be seen again
  if ((hidden.get(id) ?? 0) === until) return;
  hidden.set(id, until);
  soon();
  setTimeout(soon, Math.min(until - clock() + 2000, 2 ** 31 - 1)); // 2 s: clocks differ
}
function noted(id, fresh, until) {
  hide(id, until);
  if (waiting.has(id)) waiting.set(id, fresh);
  const row = rowOf(id);
  if (open()?.dataset.id === id) hear();
  if (!row || row.classList.contains("settled")) return;
  note(row, $(".noted", fresh)?.textContent);
  $(".left", row).replaceWith($(".left", fresh));
  Object.assign(row.dataset, fresh.dataset); // with another deadline it moves once the list is drawn again
}
let hearing = 0;
export const hear = later(async () => { // fetches what others did with the open call; its forms keep what was typed
  const shown = open(), mine = ++hearing;
  const found = shown && await part(location.href).catch(() => null);
  if (!found?.response.ok || mine !== hearing || open() !== shown) return;
  const fresh = parsed(found.text);
  if (!$("#decide form", shown) !== !$("#decide form", fresh)) return void load(location.href, shown.dataset.id); // others decide now
  for (const name of ["#agreed", "#said", "header > .line", ".effect"]) {
    const old = $(name, shown), now = $(name, fresh);
    if (old && now && old.innerHTML !== now.innerHTML) old.innerHTML = now.innerHTML; // as in `fill`
  }
  const both = $("#together", shown);
  if (both) both.hidden = $("#together", fresh)?.hidden ?? false;
  tick();
}, 300);
export function end(id, says, at = clock()) {
  waiting.delete(id);
  drafts.delete(id);
  unsay(id);
  const row = rowOf(id);
  if (row && !row.classList.contains("settled")) {
    row.classList.add("settled");
    const box = $("input", row);
    if (box) { box.checked = false; box.disabled = true; }
    said(row, says, at);
  }
  const shown = open();
  if (shown?.dataset.id === id && !shown.classList.contains("settled")) {
    shown.classList.add("settled");
    if (!$("#decide .outcome", shown) && !$("#decide[aria-busy]", shown)) { // somebody else was first: the buttons are gone
      const told = made("div", { classes: "outcome stale", role: "status" });
      told.append(
        made("h2", { text: "This call no longer waits" }),
        made("p", { text: `It was ${says}.` }),
        made("a", { classes: "button", text: "Next call", id: "next", href: "#" }),
      );
      $("#decide", shown)?.replaceChildren(told);
    }
  }
  marked();
  count();
}
document.addEventListener("htmx:sseBeforeMessage", (event) => {
  if (!["change", "missed"].includes(event.detail.type)) return;
  event.preventDefault(); // the message is data, not HTML to insert
  if (event.detail.type === "missed") return void refresh().then(hear);
  const told = JSON.parse(event.detail.data);
  if (told.row) arrive(told); else if (told.noted) noted(told.id, rowIn(told.noted), told.hidden_until); else end(told.id, told.ended, told.at);
});
document.addEventListener("mouseover", later(() => { if (waiting.size && !busy()) show(); }, 300));

// Filters: typing narrows the list at once, and the server then gives the further calls that fit.
const filters = $("form.filters");
function address() {
  const given = new URLSearchParams([...new FormData(filters)].filter(([, value]) => value));
  return filters.getAttribute("action") + (given.size ? `?${given}` : "");
}
let asked = 0;
export async function refresh() {
  if (!filters || !list()) return true;
  const mine = ++asked;
  const path = address();
  const found = await part(path).catch(() => null);
  if (mine !== asked) return true;
  if (!found) return void notice("The list could not be fetched: the server was not reached.", { key: "reach" });
  if (found.response.type === "opaqueredirect" || found.response.status === 401) return signedOut(), true;
  const checked = new Set($$("#rows input:checked").map((box) => box.value));
  const holder = parsed(found.text);
  const fresh = $("#list", holder);
  if (!fresh) return void notice(holder.textContent.trim(), { key: "reach" });
  waiting.clear();
  unsay("reach");
  htmx.swap("#list", found.text, { swapStyle: "outerHTML" });
  for (const box of $$("#rows input")) box.checked = checked.has(box.value);
  if (!open()) history.replaceState(null, "", path);
  select(open()?.dataset.id);
  marked();
  options();
  count();
  tick();
  return true;
}
const soon = later(refresh, 250);
filters?.addEventListener("submit", (event) => { event.preventDefault(); refresh(); });
filters?.addEventListener("change", (event) => { if (event.target.matches("select")) refresh(); });
filters?.addEventListener("input", (event) => {
  if (!event.target.matches("[type=search]")) return;
  const words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const row of rows()) {
    const text = row.textContent.toLowerCase();
    row.hidden = !words.every((word) => text.includes(word));
  }
  soon();
});

// One call beside the list: the chosen call, or a note that it is being fetched, and never another call.
export const drafts = new Map();
let fetching = null;
export function select(id) {
  for (const link of $$("#rows a[aria-current]")) link.removeAttribute("aria-current");
  if (id) $("a", rowOf(id) ?? document.createElement("p"))?.setAttribute("aria-current", "true");
}
export const chosen = () => $("#rows a[aria-current]")?.closest(".row")?.dataset.id;
function keep() { // keeps what was typed into a call's forms until the call is opened again
  const shown = open();
  if (!shown || shown.classList.contains("settled")) return;
  const { id } = shown.dataset;
  const typed = [...values()].filter(([place, value]) => originals.get(id)?.get(place) !== value);
  if (typed.length) drafts.set(id, new Map(typed)); else drafts.delete(id);
}
const originals = new Map(); // the fields of a call as it was fetched
const fields = () => $$("#decide input:not([type=hidden]), #decide textarea, #decide select");
const placeOf = (one) => `${one.form.dataset.of}:${one.name}`; // forms of several decisions have fields of one name
const values = () => new Map(fields().map((one) => [placeOf(one), one.type === "checkbox" ? one.checked : one.value]));
export function restore(id) {
  originals.set(id, values());
  for (const one of fields()) {
    const value = drafts.get(id)?.get(placeOf(one));
    if (value === undefined) continue;
    if (typeof value === "boolean") one.checked = value; else one.value = value;
    for (let folded = one.closest("details"); folded; folded = folded.parentElement.closest("details")) folded.open = true; // shows typed text
  }
  hide(id, Number($("#hidden-until")?.dataset.clock ?? 0));
  if (unanswered.has(id)) for (const one of $$("#decide [name=decision_id]")) one.value = unanswered.get(id);
}
export const unanswered = new Map(); // the keys of decisions that may or may not have been recorded
export async function load(path, id) {
  fetching?.abort();
  const mine = fetching = new AbortController();
  keep();
  const detail = $("#detail");
  detail.replaceChildren(made("p", { classes: "empty", text: "Loading …" }));
  try {
    const { response, text } = await part(path, { signal: mine.signal });
    if (mine.signal.aborted) return;
    if (response.type === "opaqueredirect" || response.status === 401) { detail.replaceChildren(); return void signedOut(); }
    fill(detail, text);
    restore(id);
  } catch {
    if (mine.signal.aborted) return;
    const again = made("button", { text: "Try again", type: "button" });
    again.addEventListener("click", () => load(path, id));
    const told = made("div", { classes: "empty" });
    told.append(made("p", { text: "This call could not be fetched: the server was not reached." }), again);
    detail.replaceChildren(told);
  }
}
export async function go(link, { push = true } = {}) {
  const row = link.closest(".row");
  const left = open();
  if (left?.dataset.id !== row?.dataset.id) forget(left);
  select(row?.dataset.id);
  document.body.classList.add("one-open");
  if (push) history.pushState(null, "", link.href);
  row?.scrollIntoView({ block: "nearest" });
  const edited = [...(drafts.get(row?.dataset.id)?.keys() ?? [])].some((place) => place.startsWith("edit:v"));
  await load(edited ? `${link.href}&edit=1` : link.href, row?.dataset.id);
  $("#detail").scrollTop = 0;
  if (matchMedia("(max-width: 899px)").matches) scrollTo(0, 0);
}
function forget(shown) { // removes settled rows that were read, unless that would move a row under the pointer
  const row = shown && rowOf(shown.dataset.id);
  if (row?.classList.contains("settled") && !list().matches(":hover")) row.remove();
}
export function next() {
  const all = rows().filter((row) => !row.hidden);
  const at = all.findIndex((row) => row.dataset.id === open()?.dataset.id);
  const left = [...all.slice(at + 1), ...all.slice(0, Math.max(at, 0))].find((row) => !row.classList.contains("settled") && !row.classList.contains("sending"));
  if (left) return void go($("a", left));
  location.assign(filters ? address() : $(".brand").href);
}
document.addEventListener("click", (event) => {
  if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
  const link = event.target.closest("a");
  if (event.target.id === "arrived") return void show();
  if (link?.id === "next" && list()) { event.preventDefault(); return void next(); }
  if (link?.closest("#rows")) { event.preventDefault(); return void go(link); }
  if (link?.closest(".back") && list()) { event.preventDefault(); history.pushState(null, "", address()); return void shut(); }
  if (link?.matches("#decide .in-place") && list()) {
    event.preventDefault();
    const id = open().dataset.id;
    for (const one of $$("#decide form")) one.reset(); // discards what was typed into the other form
    drafts.delete(id);
    load(link.href, id).then(() => (field() ?? $("#first-choice"))?.focus());
  }
});
export const EDITED = "#decide .edit:not(.beside) :is(input:not([type=hidden]), textarea, select)"; // the edited arguments come first
export const field = () => $(EDITED);
function shut() {
  fetching?.abort();
  keep();
  document.body.classList.remove("one-open");
  forget(open());
  $("#detail").replaceChildren();
  select();
}
addEventListener("popstate", () => {
  if (!list()) return;
  const row = rows().find((one) => $("a", one).href === location.href);
  if (row) go($("a", row), { push: false }); else if (/\/inbox\/?$/.test(location.pathname)) shut(); else location.reload();
});

// Several at once.
function marked() {
  const number = $$("#rows input:checked").length;
  $("#several")?.classList.toggle("marked", number > 0);
  const button = $("#several-button");
  if (button) put(button, number ? `Decide the ${number} that are marked` : "Decide the marked ones");
}
document.addEventListener("change", (event) => { if (event.target.matches("#rows input")) marked(); });
