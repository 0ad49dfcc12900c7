// The common part of the scripts of all pages: elements, running times, notices, parts of pages from the server.
export const $ = (selector, within = document) => within.querySelector(selector);
export const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
export const later = (work, ms) => { let timer; return () => { clearTimeout(timer); timer = setTimeout(work, ms); }; };
export const made = (tag, { classes = "", text = "", ...more } = {}) => Object.assign(document.createElement(tag), { className: classes, textContent: text, ...more });
export const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };
export const focus = (selector) => { const found = $(selector); found?.focus(); return Boolean(found); };

// Times. The server writes them in words; this keeps them current, by the server's clock.
const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
const ahead = Date.now() - performance.now() + (performance.getEntriesByType("navigation")[0]?.responseStart ?? 0) - Number(document.documentElement.dataset.now || Date.now());
export const clock = () => Date.now() - (Math.abs(ahead) < 2000 ? 0 : ahead);
const span = (ms) => {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  const [size, unit] = UNITS.find(([size]) => seconds >= size) ?? [1, "s"];
  return `${Math.floor(seconds / size)} ${unit}`;
};
export function tick() {
  const now = clock();
  for (const time of $$("time[data-at]")) {
    put(time, `${span(now - Number(time.dataset.at))} ago`);
    time.title = new Date(Number(time.dataset.at)).toLocaleString();
  }
  for (const time of $$("time[data-clock]")) put(time, new Date(Number(time.dataset.clock)).toLocaleString());
  for (const time of $$("time[data-until]")) {
    const left = Number(time.dataset.until) - now;
    put(time, left > 0 ? `${span(left)} left` : "overdue");
    time.classList.toggle("soon", left > 0 && left < 900000);
    time.classList.toggle("late", left <= 0);
    time.title = new Date(Number(time.dataset.until)).toLocaleString();
  }
}
setInterval(tick, 10000);

// Notices stay until they are closed, or their reason is gone.
export function notice(text, { key = "", link = null } = {}) {
  const shown = made("p", { classes: "notice bad" });
  shown.dataset.key = key;
  shown.append(text, " ");
  if (link) shown.append(link, " ");
  const close = made("button", { classes: "quiet", text: "Close", type: "button" });
  close.addEventListener("click", () => shown.remove());
  shown.append(close);
  unsay(key);
  $("#notice").append(shown);
}
export const unsay = (key) => $$("#notice > p").filter((one) => one.dataset.key === key).forEach((one) => one.remove());
export function signedOut() {
  const back = encodeURIComponent(location.pathname + location.search);
  const link = made("a", { text: "Sign in again", href: `${document.documentElement.dataset.root}/signin?next=${back}` });
  notice("You are signed out: nothing that you do here is accepted.", { key: "session", link });
}
export const LOST = "The server was not reached, or its answer was lost. Press the button again: the same decision counts once.";

// A part of a page, from the server: the response and its text. `HX-Request` asks for a part in place of a whole page.
export async function part(path, { signal, ...options } = {}) {
  const late = AbortSignal.timeout(20000);
  const ends = signal ? AbortSignal.any([signal, late]) : late;
  const response = await fetch(path, { ...options, signal: ends, headers: { "HX-Request": "true" }, redirect: "manual" });
  return { response, text: response.type === "opaqueredirect" ? "" : await response.text() };
}
export function fill(element, html) { // the server's own templates, in which everything is escaped
  element.innerHTML = html;
  htmx.process(element);
  tick();
}
export const parsed = (text) => Object.assign(document.createElement("template"), { innerHTML: text }).content; // as in `fill`

/** The list of pending calls, if the page has one. */
export const list = () => $("#list");
