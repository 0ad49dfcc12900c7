/** The common part of the elements: making nodes, styles, and texts. */

import { written } from "./holdfast-json.js";

/**
 * The words of the elements; an application may replace each. It may also add these, which replace words in the forms that the
 * server draws: allow, allowThis, answer, answers, approve, block, deny, endTurn, fromNow, goOn, later, laterHint, lasts, notText,
 * notesNeeded, otherScope, scopeEverything, scopeKind, scopeLevel, scopePattern, sendBack, untold.
 */
export const texts = {
  loading: "Loading…",
  offline: "No connection. Trying again.",
  failed: "It cannot be shown",
  nothingWaits: "Nothing waits for you.",
  nothingRuns: "Nothing runs.",
  conversation: "Conversation",
  noMessages: "No messages yet.",
  earlier: "Earlier messages",
  image: "image",
  file: "file",
  decline: "Decline to answer",
  send: "Send answer",
  back: "Back",
  dismiss: "Dismiss",
  reason: "Reason (optional)",
  notes: "Notes",
  notesHint: "Needed to send it back.",
  report: "Report",
  payload: "Data",
  decides: "It may be decided by",
  anybody: "anybody who is known",
  andOf: "and of",
  notAsker: "but not who asked",
  of: "of",
  agreed: "have agreed",
  youToo: "you too. It waits for others.",
  votedAlready: "You have agreed already.",
  notPermitted: "You may not decide this",
  takenOn: "has taken it on.",
  comments: "Comments",
  somebody: "somebody",
  elsewhere: "It waits for somebody who may decide it.",
  lastsFor: { 900: "15 minutes", 3600: "An hour", 28800: "8 hours", 86400: "A day", 604800: "A week" },
  lastsOn: "Until it is revoked",
  allCalls: "Approve, and all calls from now on of",
  sending: "Sending…",
  arguments: "Arguments",
  due: "until",
  ruled: "Asked by the rule",
  because: "Asked because",
  you: "by you",
  by: "by",
  yes: "Yes",
  no: "No",
  choose: "Choose…",
  json: "JSON",
  noAnswer: "No answer",
  perLine: "One on each line",
  optional: "optional",
  needed: "This is needed.",
  noNumber: "This is no number that can be sent.",
  noInteger: "This is no whole number that can be sent.",
  noJson: "This is no JSON.",
  here: "in this page",
  atClient: "at",
  otherClient: "at another client",
  noClient: "waits for a client",
  provider: "by the model's provider",
  preparing: "is prepared",
  runs: "runs",
  checked: "is checked",
  held: "waits its turn",
  done: "done",
  wrong: "failed",
  working: "Working…",
  settled: {
    approve: "Approved",
    deny: "Denied",
    answer: "Answered",
    fail: "Failed",
    redispatch: "Run again",
    edit: "Asked anew, with edited arguments",
    cancel: "Cancelled",
    review: "Reviewed",
    expiry: "Its deadline has passed",
    cancellation: "Cancelled",
    grant: "Allowed by a grant",
    unattended: "Decided automatically",
  },
  verdicts: { allow: "Allowed", block: "Blocked", review: "Sent back" },
  over: "Settled",
};

const SHEET = new CSSStyleSheet();
SHEET.replaceSync(`
:host {
  --_ink: var(--holdfast-ink, light-dark(#1c2027, #e8eaee));
  --_muted: var(--holdfast-muted, light-dark(#59606c, #a6aebb));
  --_surface: var(--holdfast-surface, light-dark(#ffffff, #191c22));
  --_sunken: var(--holdfast-sunken, light-dark(#f3f4f7, #23272f));
  --_line: var(--holdfast-line, light-dark(#d5d9e0, #383e49));
  --_accent: var(--holdfast-accent, light-dark(#1f5fbf, #82b3ff));
  --_on-accent: var(--holdfast-on-accent, light-dark(#ffffff, #0b1524));
  --_danger: var(--holdfast-danger, light-dark(#a8201a, #ffa198));
  --_radius: var(--holdfast-radius, 0.5rem);
  --_space: var(--holdfast-space, 0.75rem);
  display: block; color: var(--_ink); font: var(--holdfast-font, inherit);
}
:host([hidden]) { display: none; }
* { box-sizing: border-box; }
[hidden] { display: none !important; }
.notice, .empty { margin: 0; padding: 0.25rem 0; color: var(--_muted); }
.notice.failed, .error, .problem { color: var(--_danger); }
.list { display: grid; gap: var(--_space); }
.card { display: grid; gap: 0.5rem; min-width: 0; margin: 0; padding: var(--_space); border: 1px solid var(--_line);
  border-radius: var(--_radius); background: var(--_surface); }
.head, .buttons, .controls { display: flex; flex-wrap: wrap; gap: 0.5rem; align-items: baseline; }
.head { justify-content: space-between; }
.tool, .title { font-weight: 600; }
.tool, .title, .text, .prompt, .report, pre { overflow-wrap: anywhere; unicode-bidi: plaintext; }
.deadline, .detail, .outcome, .hint, .faint { color: var(--_muted); font-size: 0.875em; overflow-wrap: anywhere; }
p { margin: 0; }
form { display: grid; gap: var(--_space); }
.together { display: grid; gap: 0.25rem; font-size: 0.875em; overflow-wrap: anywhere; }
.comments { display: grid; gap: 0.25rem; max-height: var(--holdfast-scroll-height, 16rem); margin: 0; padding-left: 1.25rem; overflow: auto; }
.settled .deadline { display: none; }
.prompt, .text { white-space: pre-wrap; }
.report { max-height: var(--holdfast-scroll-height, 16rem); overflow: auto; padding-left: 0.75rem; border-left: 3px solid var(--_line); }
pre { margin: 0; padding: 0.5rem; max-height: var(--holdfast-scroll-height, 16rem); overflow: auto; white-space: pre-wrap;
  border-radius: calc(var(--_radius) / 2); background: var(--_sunken); font: 0.875em/1.45 ui-monospace, monospace; }
fieldset { display: grid; gap: 0.5rem; min-width: 0; margin: 0; padding: 0; border: 0; }
.controls fieldset { gap: 0.25rem; } .controls fieldset:has(.field) { gap: 0.5rem; }
legend { padding: 0; }
label { display: block; } .field { display: grid; gap: 0.25rem; }
label.check { display: flex; gap: 0.5rem; align-items: baseline; }
label [dir=auto], label bdi { overflow-wrap: anywhere; }
input:not([type=radio], [type=checkbox]), textarea, select { width: 100%; min-height: 2.5rem; padding: 0.4rem 0.6rem; font: inherit;
  color: inherit; background: var(--_sunken); border: 1px solid var(--_muted); border-radius: calc(var(--_radius) / 2); }
textarea { resize: vertical; max-height: 24rem; }
[aria-invalid=true] { border-color: var(--_danger) !important; }
button { min-height: 2.5rem; padding: 0.4rem 1rem; font: inherit; color: var(--_ink); background: transparent; cursor: pointer;
  border: 1px solid var(--_muted); border-radius: calc(var(--_radius) / 2); }
button.good { color: var(--_on-accent); background: var(--_accent); border-color: var(--_accent); }
button:disabled, fieldset:disabled button { opacity: 0.6; cursor: default; }
:focus-visible { outline: 3px solid var(--_accent); outline-offset: 2px; }
progress { width: 100%; accent-color: var(--_accent); }
.controls > form:has(.edit, .field), .controls > .later { flex: 1 1 100%; min-width: 0; }
.off-screen { position: absolute; width: 1px; height: 1px; min-height: 0; overflow: hidden; clip-path: inset(50%); }
.with-button { display: flex; flex-wrap: wrap; gap: 0.5rem; } .with-button input { flex: 1 1 12rem; width: auto; }
.later summary { cursor: pointer; width: fit-content; color: var(--_muted); font-size: 0.875em; }
.later[open] > summary, .own[open] > summary, .own .scope-fields { margin-bottom: 0.5rem; }
.deny, .scope-fields { display: grid; gap: 0.5rem; }
.ready { text-align: left; overflow-wrap: anywhere; }
.log { display: grid; gap: var(--_space); max-height: var(--holdfast-messages-height, none); overflow: auto; }
.message { justify-self: start; max-width: min(42rem, 92%); padding: 0.5rem 0.75rem; border-radius: var(--_radius); background: var(--_sunken); }
.message.user { justify-self: end; color: var(--_on-accent); background: var(--_accent); }
.message.queued { opacity: 0.7; }
.message img { display: block; max-width: 100%; max-height: 40vh; border-radius: var(--_radius); }
.call { color: var(--_muted); font-size: 0.875em; }
`);

/**
 * A node with children. Texts become text nodes: no foreign text is ever parsed as HTML. `class` also names the part; the other
 * names are properties if the node has them, else attributes.
 */
export function make(tag, { class: name, ...properties } = {}, ...children) {
  const node = document.createElement(tag);
  if (name) {
    node.className = name;
    node.setAttribute("part", name);
  }
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (key in node) node[key] = value;
    else node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

const TAGS = new Set(
  "bdi button code datalist details div fieldset form input label legend option p select span summary textarea".split(" "),
);
const NAMES =
  /^(aria-[a-z]+|autocomplete|checked|class|data-of|dir|for|hidden|id|inputmode|list|maxlength|name|novalidate|open|role|rows|selected|spellcheck|tabindex|type|value)$/;
const IDS = new Set(["id", "for", "list", "aria-describedby"]);
const PARTS = { field: "field", hint: "hint", check: "choice", problem: "error", buttons: "actions" }; // by classes of the server's

/**
 * A text or a node of a form that the server has drawn: known elements, with known attributes, and texts as text. The `prefix` sets
 * the ids of this form apart from those of others.
 */
export function built(drawn, prefix) {
  if (typeof drawn === "string") return drawn;
  const [tag, attributes, ...children] = drawn;
  if (!TAGS.has(tag)) throw new TypeError(`a form has no ${tag}`);
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (NAMES.test(name)) node.setAttribute(name, IDS.has(name) ? prefix + value : value);
  }
  const parts = [...[...node.classList].map((name) => PARTS[name]), attributes.part, tag === "button" && tag];
  node.part.add(...parts.filter(Boolean));
  const word = attributes["data-word"]?.split(".").reduce((found, name) => found?.[name], texts);
  node.append(...(typeof word === "string" ? [word] : children.map((one) => built(one, prefix))));
  return node;
}

const UNSEEN =
  /(?![\n\t\u00a0\u202f\u3000])[\p{C}\p{Z}\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\uffa0\u2800\u{1d159}\u{e0100}-\u{e01ef}]/gu;

/** A text with escapes for characters that are invisible or change the order of others. */
export function plain(text) {
  return String(text).replace(UNSEEN, (found, at, whole) => {
    if (found === "\u200d" && /\p{Extended_Pictographic}[\ufe0f\u{1f3fb}-\u{1f3ff}]?$/u.test(whole.slice(0, at))) return found; // in an emoji
    const code = found.codePointAt(0);
    if (code === 32) return found;
    return code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, "0")}`;
  });
}

/** The text of a moment (milliseconds UTC); without the date if it is today. */
export function moment(ms) {
  const date = new Date(ms);
  const today = date.toDateString() === new Date().toDateString();
  return date.toLocaleString([], today ? { timeStyle: "short" } : { dateStyle: "medium", timeStyle: "short" });
}

/** The text of a JSON value. */
export const shown = (value) => plain(written(value, 2));

/** The base class of the elements, each of which shows a list. */
export class HoldfastElement extends HTMLElement {
  #conversation = null;
  #end = null;
  #drawing = null;
  #notice = make("p", { class: "notice", role: "status", hidden: true });
  #empty = make("p", { class: "empty", hidden: true });
  #nodes = new Map();

  constructor(list = make("div", { class: "list" })) {
    super();
    this.attachShadow({ mode: "open", delegatesFocus: false }).adoptedStyleSheets = [SHEET];
    this.list = list;
    this.shadowRoot.append(this.#notice, this.#empty, list);
  }

  /** The conversation that is shown. */
  get conversation() {
    return this.#conversation;
  }

  set conversation(conversation) {
    if (conversation === this.#conversation) return;
    this.#leave();
    this.#conversation = conversation ?? null;
    this.reset();
    this.#join();
  }

  connectedCallback() {
    if (Object.hasOwn(this, "conversation")) {
      const given = this.conversation; // set before the browser made this an element of the class
      delete this.conversation;
      this.conversation = given;
    }
    this.#join();
  }

  disconnectedCallback() {
    this.#leave();
  }

  /** Draw the view; returns the text for an empty list, or null if the list is not empty. */
  draw() {
    return null;
  }

  /** Forget everything about the previous conversation. */
  reset() {
    this.#nodes.clear();
    this.list.replaceChildren();
  }

  /** Update the list's children from the items: the nodes of known keys are kept in place. */
  keep(items, build, update = () => {}) {
    const wanted = new Set(items.map(({ key }) => key));
    for (const [key, node] of this.#nodes) {
      if (!wanted.has(key)) {
        node.remove();
        this.#nodes.delete(key);
      }
    }
    items.forEach((item, place) => {
      if (!this.#nodes.has(item.key)) this.#nodes.set(item.key, build(item));
      const node = this.#nodes.get(item.key);
      update(node, item);
      if (this.list.children[place] !== node) this.list.insertBefore(node, this.list.children[place] ?? null);
    });
  }

  /** Tell the application. */
  tell(name, detail) {
    this.dispatchEvent(new CustomEvent(`holdfast-${name}`, { detail, bubbles: true, composed: true }));
  }

  #join() {
    if (!this.isConnected || this.#conversation === null || this.#end !== null) return;
    let view = null;
    const draw = () => {
      this.#drawing = null;
      this.#draw(view);
    };
    this.#end = this.#conversation.watch((now) => {
      const first = view === null;
      view = now;
      if (first) draw();
      else this.#drawing ??= requestAnimationFrame(draw);
    });
  }

  #leave() {
    this.#end?.();
    this.#end = null;
    if (this.#drawing !== null) cancelAnimationFrame(this.#drawing);
    this.#drawing = null;
  }

  #draw(view) {
    const { phase, error, state } = view;
    const empty = this.draw(view);
    const said = { loading: texts.loading, offline: texts.offline, failed: `${texts.failed}: ${error?.message ?? ""}` }[phase];
    write(this.#notice, said ?? "");
    this.#notice.hidden = said === undefined;
    this.#notice.classList.toggle("failed", phase === "failed");
    write(this.#empty, empty ?? "");
    this.#empty.hidden = empty === null || state === null;
    this.setAttribute("phase", phase);
    this.toggleAttribute("empty", empty !== null);
    if (phase === "failed" && this.failure !== error) this.tell("error", { error });
    this.failure = error;
  }
}

/** Set a node's text if it has changed: screen readers would read an unchanged one out again. */
export function write(node, text) {
  if (node.textContent !== text) node.textContent = text;
}
