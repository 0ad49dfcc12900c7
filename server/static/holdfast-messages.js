/** The elements for messages and running calls: `<holdfast-messages>` and `<holdfast-running>`. */
import { HoldfastElement, make, plain, shown, texts, write } from "./holdfast-element.js";

const MOST_MESSAGES = 500; // before more are asked for
const MORE = 100;
const NEAR_END = 40;

/** `<holdfast-messages>`: the messages, and the model's text as it comes. */
export class MessagesElement extends HoldfastElement {
  /**
   * How a text becomes nodes, for an application that shows markdown: `(text, message) => Node | string`. A string is shown as it
   * is. By default a text is shown with its line breaks.
   */
  render = null;
  #most = MOST_MESSAGES;
  #first = 0;
  #more = null;

  constructor() {
    super(make("div", { class: "log", role: "log", tabIndex: 0, "aria-label": texts.conversation }));
  }

  draw(view) {
    const { list } = this;
    const atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < NEAR_END;
    const fromEnd = list.scrollHeight - list.scrollTop;
    const begin = Math.max(view.messages.length - this.#most, 0);
    const first = begin - view.older.count; // the place of the first shown message, from the first one that was read
    const items = this.#items(view, begin, first);
    this.keep(items, (item) => this.#build(item), (node, item) => this.#update(node, item));
    if (first < this.#first) list.scrollTop = list.scrollHeight - fromEnd; // what is in sight stays there
    else if (atEnd) list.scrollTop = list.scrollHeight;
    this.#first = first;
    this.#more = async () => {
      this.#most += MORE;
      if (begin > 0) this.draw(view);
      else await this.conversation.earlier();
    };
    return items.length ? null : texts.noMessages;
  }

  reset() {
    super.reset();
    this.#most = MOST_MESSAGES;
    this.#first = 0;
  }

  #items({ messages, older, queued, writing, state }, begin, first) {
    const latest = messages.slice(begin);
    const results = new Map(latest.flatMap(({ role, tool_call_id: id, content }) => (role === "tool" ? [[id, content]] : [])));
    const items = latest.flatMap((message, place) => said(message, first + place, results));
    if (begin > 0 || older.more) items.unshift({ key: "earlier", role: "earlier", text: texts.earlier });
    if (writing?.text) items.push({ key: "writing", role: "assistant", text: writing.text, live: true });
    else if (state?.status === "generating") items.push({ key: "working", role: "working", text: texts.working });
    if (state?.status === "failed" && state.error)
      items.push({ key: `failed-${state.seq}`, role: "failure", text: state.error });
    for (const { seq, text } of queued)
      items.push(...drawn(text, `queued-${seq}`, "user").map((item) => ({ ...item, queued: true })));
    return items;
  }

  #build({ role, live, queued }) {
    if (role === "earlier") {
      const button = make("button", { class: "earlier", type: "button" });
      button.addEventListener("click", () => this.#more().catch((error) => this.tell("error", { error })));
      return button;
    }
    const name = {
      user: "message user",
      assistant: "message assistant",
      call: "call",
      working: "call working",
      failure: "error failure",
    }[role];
    const node = make("div", { class: name + (live ? " live" : "") + (queued ? " queued" : ""), dir: "auto" });
    if (live) node.setAttribute("aria-live", "off"); // screen readers read it out once it is whole
    if (role === "failure") node.setAttribute("role", "alert");
    return node;
  }

  #update(node, { key: _, ...item }) {
    const { role, text, image, live = false } = item;
    if (node.said === (image ?? text)) return;
    node.said = image ?? text;
    if (image !== undefined) {
      node.replaceChildren(Object.assign(make("img"), { src: image, alt: texts.image }));
      return;
    }
    if (this.render === null || (role !== "assistant" && role !== "user")) {
      node.classList.add("text");
      if (node.firstChild?.nodeType === Node.TEXT_NODE) node.firstChild.data = text;
      else node.replaceChildren(text);
      return;
    }
    try {
      node.replaceChildren(this.render(text, { role, live }) ?? "");
    } catch (error) {
      node.replaceChildren(text);
      this.tell("error", { error });
    }
  }
}

/** The shown parts of a message: its text, and a line for each call with its outcome. */
function said({ role, content, tool_calls: calls, misfit }, place, results) {
  if ((role !== "user" && role !== "assistant") || misfit) return [];
  const lines = (calls ?? []).map(({ id, function: called }, at) => {
    const name = plain(called?.name ?? "");
    return { key: `${place}.${at}`, role: "call", text: results.has(id) ? `${name} · ${went(results.get(id))}` : `→ ${name}` };
  });
  return [...drawn(content, `${place}.${role}`, role), ...lines];
}

/** What a message says: its text, in which `[image]` stands for an image elsewhere, and its images that came as data. */
function drawn(content, key, role) {
  const parts = Array.isArray(content) ? content : [{ type: "text", text: content ?? "" }];
  const text = parts.map(inWords).filter(Boolean).join("\n");
  const images = parts.filter(isData).map((part, at) => ({ key: `${key}.${at}`, role, image: part.image_url.url }));
  return [...(text ? [{ key, role, text }] : []), ...images];
}

const isData = (part) => part?.type === "image_url" && /^data:image\//.test(part.image_url?.url ?? ""); // none is ever fetched

function inWords(part) {
  if (part?.type === "text") return part.text;
  if (part?.type === "image_url") return isData(part) ? "" : `[${texts.image}]`;
  return `[${texts.file}${part?.file?.filename ? ` ${plain(part.file.filename)}` : ""}]`;
}

function went(content) {
  try {
    return JSON.parse(Array.isArray(content) ? content[0].text : content).ok ? texts.done : texts.wrong;
  } catch {
    return texts.done;
  }
}

/** `<holdfast-running>`: the running calls with their progress, and the current work of the model and its provider. */
export class RunningElement extends HoldfastElement {
  draw({ state, progress, preparing, held, provided, here }) {
    const items = [...preparing].map(([key, { tool }]) => ({ key, tool, what: texts.preparing }));
    for (const run of state?.running ?? []) {
      items.push({
        key: run.tool_call_id,
        tool: run.tool,
        what: run.executor === "client" ? texts.checked : texts.runs, // before a client is given it
        ...report(progress.get(run.tool_call_id) ?? run.progress),
      });
    }
    for (const call of state?.pending ?? []) {
      if (call.kind !== "client_exec") continue;
      const what = here.has(call.suspension_id) ? texts.here : whereIs(call);
      items.push({ key: call.suspension_id, tool: call.tool, what, ...report(progress.get(call.tool_call_id)) });
    }
    for (const [key, { tool }] of held) items.push({ key, tool, what: texts.held });
    for (const { key, tool, input } of provided)
      items.push({ key, tool, what: texts.provider, detail: input && shown(input).slice(0, 500) });
    this.keep(items, build, update);
    return items.length ? null : texts.nothingRuns;
  }
}

/** The client that has claimed a call, as far as the page may read who that is. */
function whereIs({ claimed }) {
  if (!claimed) return texts.noClient;
  return claimed.client_id ? `${texts.atClient} ${plain(claimed.client_id)}` : texts.otherClient;
}

function build() {
  const head = make("div", { class: "head" }, make("span", { class: "tool" }), make("span", { class: "deadline" }));
  const bar = make("progress", { class: "progress", max: 1, hidden: true });
  return make("section", { class: "card" }, head, bar, make("p", { class: "detail", dir: "auto", hidden: true }));
}

function update(node, { tool, what, status, loaded, total, detail }) {
  const [name, how] = node.firstChild.children;
  const [, bar, more] = node.children;
  write(name, plain(tool));
  write(how, plain(status ?? what));
  node.setAttribute("aria-label", plain(tool));
  bar.hidden = typeof loaded !== "number";
  if (!bar.hidden && total > 0) bar.value = Math.min(loaded / total, 1);
  else bar.removeAttribute("value");
  bar.setAttribute("aria-label", plain(tool));
  const said = [typeof loaded === "number" ? `${loaded}${total > 0 ? ` / ${total}` : ""}` : "", detail ?? ""]
    .filter(Boolean)
    .join(" · ");
  write(more, said);
  more.hidden = !said;
}

/** The text of a run's progress report. */
function report(reported) {
  if (!reported || typeof reported !== "object") return {};
  const { value, message, status, loaded, total } = reported;
  const detail = message ?? (value === null || value === undefined ? "" : typeof value === "string" ? value : shown(value));
  return { status: status ?? undefined, loaded, total, detail: plain(detail).slice(0, 2000) };
}
