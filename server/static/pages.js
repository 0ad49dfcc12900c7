// What a script adds to the pages: live rows, keys, counts in the title, notifications, times that pass. All of it works without.
"use strict";
(() => {
  const $ = (selector, within = document) => within.querySelector(selector);
  const $$ = (selector, within = document) => [...within.querySelectorAll(selector)];
  const later = (work, ms) => { let timer; return () => { clearTimeout(timer); timer = setTimeout(work, ms); }; };
  document.documentElement.classList.add("scripted");

  // Times. The server writes them in words; here they pass.
  const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];
  const span = (ms) => {
    const seconds = Math.max(0, Math.floor(ms / 1000));
    const [size, unit] = UNITS.find(([size]) => seconds >= size) ?? [1, "s"];
    return `${Math.floor(seconds / size)} ${unit}`;
  };
  const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };
  function tick() {
    const now = Date.now();
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

  // The connection.
  const connection = $("#connection");
  const connected = (fine) => {
    if (!connection) return;
    connection.hidden = fine;
    put(connection, fine ? "" : "Connection lost: trying again");
  };
  document.addEventListener("htmx:sseError", () => connected(false));
  document.addEventListener("htmx:sseOpen", () => connected(true));
  const notice = (text) => {
    const shown = document.createElement("p");
    shown.className = "notice bad";
    shown.textContent = text;
    $("#notice").replaceChildren(shown);
  };
  document.addEventListener("htmx:sendError", () =>
    notice("The server was not reached, or its answer was lost. Press the button again: the same decision counts once."));
  document.addEventListener("htmx:timeout", () => notice("The server has not answered. Press the button again: the same decision counts once."));
  document.addEventListener("htmx:beforeRequest", () => $("#notice").replaceChildren());
  document.addEventListener("submit", (event) => { // a form that is sent by the browser itself goes out once
    if (!event.target.matches("form[data-once]")) return;
    if (event.target.dataset.sent) event.preventDefault();
    event.target.dataset.sent = "yes";
  });
  addEventListener("pageshow", () => $$("form[data-once]").forEach((form) => delete form.dataset.sent));

  // The list. Rows that come wait while the pointer is in it, so that nothing moves under it.
  const list = () => $("#list");
  const rows = () => $$("#rows > .row");
  const waiting = new Map();
  let unseen = 0;
  const open = () => $("article.call");
  function options() { // agents and tools that the server's own app does not have can be chosen too
    for (const [name, found] of [["agent", ".of bdi:first-child"], ["tool", ".line code"]]) {
      const select = $(`.filters select[name=${name}]`);
      const known = new Set($$("option", select).map((option) => option.value));
      for (const text of new Set($$(`#rows ${found}`).map((element) => element.textContent))) {
        if (!known.has(text) && !text.endsWith("…")) select.append(new Option(text, text));
      }
    }
  }
  function count() {
    if (!list()) return;
    const number = $$("#rows > .row:not(.settled)").length;
    const shown = $("[data-count]");
    if (shown) shown.parentElement.firstChild === shown && put(shown, String(number));
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
    count();
    tick();
  }
  const busy = () => Boolean(list()?.matches(":hover"));
  function arrive({ id, row, says }) {
    if (document.getElementById(`row-${id}`) || waiting.has(id)) return;
    const holder = document.createElement("template");
    holder.innerHTML = row; // the server's own template, in which everything is escaped
    const element = holder.content.firstElementChild;
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
  function end(id, says, at = Date.now()) {
    waiting.delete(id);
    const row = document.getElementById(`row-${id}`);
    if (row && !row.classList.contains("settled")) {
      row.classList.add("settled");
      const box = $("input", row);
      if (box) { box.checked = false; box.disabled = true; }
      const ended = document.createElement("span");
      ended.className = "ended";
      const when = document.createElement("time");
      when.dataset.at = at;
      ended.append(says, ", ", when);
      $("a", row).append(ended);
      tick();
    }
    const shown = open();
    if (shown?.dataset.id === id && !shown.classList.contains("settled")) {
      shown.classList.add("settled");
      if (!$("#decide [role=status]", shown)) { // somebody else was first: said where the buttons were, and they are gone
        const said = document.createElement("div");
        said.className = "outcome stale";
        said.setAttribute("role", "status");
        const title = document.createElement("h2");
        title.textContent = "This does not wait any more";
        const text = document.createElement("p");
        text.textContent = `It was ${says}.`;
        const next = document.createElement("a");
        next.id = "next"; next.className = "button"; next.href = "#"; next.textContent = "Next call";
        said.append(title, text, next);
        $("#decide", shown)?.replaceChildren(said);
      }
    }
    marked();
    count();
  }
  document.addEventListener("htmx:sseBeforeMessage", (event) => {
    if (!["change", "missed"].includes(event.detail.type)) return;
    event.preventDefault(); // the message is data, and not what is to be shown
    if (event.detail.type === "missed") return void refresh();
    const told = JSON.parse(event.detail.data);
    if (told.row) arrive(told); else end(told.id, told.ended, told.at);
  });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) { unseen = 0; count(); } });
  document.addEventListener("mouseover", later(() => { if (waiting.size && !busy()) show(); }, 300));

  // Filters: what is typed narrows the list at once, and the server then says what else fits.
  const filters = $("form.filters");
  function address() {
    const said = new URLSearchParams([...new FormData(filters)].filter(([, value]) => value));
    return filters.getAttribute("action") + (said.size ? `?${said}` : "");
  }
  let asked = 0;
  async function refresh() {
    if (!filters || !list()) return;
    const mine = ++asked;
    waiting.clear();
    const path = address();
    await htmx.ajax("GET", path, { target: "#list", swap: "outerHTML" });
    if (mine !== asked) return;
    if (!open()) history.replaceState(null, "", path);
    select(open()?.dataset.id);
    count();
    tick();
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

  // One call beside the list.
  function select(id) {
    for (const link of $$("#rows a[aria-current]")) link.removeAttribute("aria-current");
    if (id) $(`#row-${CSS.escape(id)} a`)?.setAttribute("aria-current", "true");
  }
  async function go(link, { push = true } = {}) {
    const row = link.closest(".row");
    const left = open();
    if (left?.dataset.id !== row?.dataset.id) forget(left);
    select(row?.dataset.id);
    document.body.classList.add("one-open");
    if (push) history.pushState(null, "", link.href);
    await htmx.ajax("GET", link.href, { target: "#detail", swap: "innerHTML" });
    $("#detail").scrollTop = 0;
    if (matchMedia("(max-width: 899px)").matches) scrollTo(0, 0);
    row?.scrollIntoView({ block: "nearest" });
    tick();
  }
  function forget(shown) { // what was settled and read leaves the list, unless that would move what is under the pointer
    const row = shown && document.getElementById(`row-${shown.dataset.id}`);
    if (row?.classList.contains("settled") && !list().matches(":hover")) row.remove();
  }
  function next() {
    const all = rows().filter((row) => !row.hidden);
    const at = all.findIndex((row) => row.dataset.id === open()?.dataset.id);
    const left = [...all.slice(at + 1), ...all.slice(0, Math.max(at, 0))].find((row) => !row.classList.contains("settled"));
    if (left) return void go($("a", left));
    location.assign(filters ? address() : $(".brand").href);
  }
  document.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey || event.button) return;
    const link = event.target.closest("a");
    if (event.target.id === "arrived") return void show();
    if (link?.id === "next" && list()) { event.preventDefault(); return void next(); }
    if (link?.closest("#rows")) { event.preventDefault(); return void go(link); }
    if (link?.closest(".back") && list()) { event.preventDefault(); history.pushState(null, "", address()); shut(); }
    if (link?.matches("#decide .in-place")) {
      event.preventDefault();
      htmx.ajax("GET", link.href, { target: "#detail", swap: "innerHTML" }).then(() => $("#decide input:not([type=hidden]), #decide textarea, #decide select, #first-choice")?.focus());
    }
  });
  function shut() {
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
  document.addEventListener("htmx:afterSwap", (event) => {
    const decided = $("#decide[data-settled]");
    if (decided && event.detail.target?.id === "decide") {
      end(decided.dataset.settled, decided.dataset.says);
      $("#next")?.focus();
    }
    tick();
  });

  // Several at once.
  function marked() {
    const number = $$("#rows input:checked").length;
    $("#several")?.classList.toggle("marked", number > 0);
    const button = $("#several-button");
    if (button) put(button, number ? `Decide the ${number} that are marked` : "Decide the marked ones");
  }
  document.addEventListener("change", (event) => { if (event.target.matches("#rows input")) marked(); });

  // Keys.
  const help = $("#help");
  const on = $("#keys-on");
  if (on) {
    on.checked = localStorage.getItem("holdfast-keys") !== "off";
    on.addEventListener("change", () => localStorage.setItem("holdfast-keys", on.checked ? "on" : "off"));
    const button = $("#help-button");
    button.hidden = false;
    button.addEventListener("click", () => help.showModal());
  }
  function move(by) {
    const all = rows().filter((row) => !row.hidden);
    if (!all.length) return;
    const focused = document.activeElement?.closest?.(".row");
    const current = focused ?? $("#rows a[aria-current]")?.closest(".row");
    const at = current ? all.indexOf(current) + by : by > 0 ? 0 : all.length - 1;
    $("a", all[Math.min(Math.max(at, 0), all.length - 1)]).focus();
  }
  const focus = (selector) => { const found = $(selector); found?.focus(); return Boolean(found); };
  const KEYS = {
    j: () => move(1), k: () => move(-1), ArrowDown: null, n: next,
    a: () => focus("#decide .edit input, #decide .edit textarea, #decide .edit select") || focus("#first-choice"),
    d: () => focus("#reason"), e: () => $("#edit")?.click(), "/": () => focus("#search"), "?": () => help?.showModal(),
    x: () => $("input", document.activeElement?.closest?.(".row") ?? $("#rows a[aria-current]")?.closest(".row") ?? document.createElement("p"))?.click(),
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

  // A conversation that is open: what it says is fetched anew when it changed, and the model's words are put there as they come.
  const now = $("#now");
  let fetching = false, again = false;
  async function renew() {
    if (fetching) { again = true; return; }
    fetching = true;
    const kept = $$("[id]", now).filter((one) => one.scrollTop).map((one) => [one.id, one.scrollTop]);
    const opened = document.activeElement?.id;
    try {
      await htmx.ajax("GET", now.dataset.path, { target: "#now", swap: "innerHTML" });
      for (const [id, top] of kept) { const one = document.getElementById(id); if (one) one.scrollTop = top; }
      if (opened && document.activeElement === document.body) document.getElementById(opened)?.focus();
    } finally {
      setTimeout(() => { fetching = false; if (again) { again = false; renew(); } }, 300);
    }
  }
  document.addEventListener("htmx:sseBeforeMessage", (event) => {
    if (!now || !["changed", "said"].includes(event.detail.type)) return;
    event.preventDefault();
    if (event.detail.type === "changed") return void renew();
    const live = $("#live");
    if (live) live.textContent = (live.textContent + JSON.parse(event.detail.data).text).slice(-20000);
  });

  // Notifications, once they are allowed.
  const notify = $("#notify");
  if (notify && list() && "Notification" in window && Notification.permission !== "denied") {
    const said = () => put(notify, Notification.permission === "granted" && localStorage.getItem("holdfast-notify") === "on" ? "Notifications are on" : "Notify me");
    notify.hidden = false;
    notify.addEventListener("click", async () => {
      const was = localStorage.getItem("holdfast-notify") === "on" && Notification.permission === "granted";
      if (!was) await Notification.requestPermission();
      localStorage.setItem("holdfast-notify", was ? "off" : "on");
      said();
    });
    said();
  }
  if (list()) { options(); select(open()?.dataset.id); }
  count();
  tick();
})();
