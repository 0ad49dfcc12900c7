/**
 * The view of a conversation that all elements of a page share: read once, kept by one stream.
 *
 * A recorded event says only that something has changed: the feed then reads the new state from the server, once for all events
 * that came meanwhile. So no rule of the conversation is repeated here.
 */
import { HoldfastError } from "./holdfast-errors.js";
import { backoff, pause } from "./holdfast-wire.js";

const MOST_LIVE_CHARS = 1 << 20;
const MOST_SETTLED = 200;
const AT_ONCE = 100; // messages that are read from the end, and each time in front of them
const READ = { patienceMs: 3_000 }; // after that, the view counts as out of date
const SAID = new Set(["turn_started", "model_answered", "call_resolved", "turn_completed", "turn_failed", "turn_cancelled"]);

/** The part of a decision's body in the log that cards show. */
export const bodyOf = ({ decision, verdict, notes }) => (decision === "review" ? JSON.stringify({ verdict, notes }) : null);

/** The feed of one conversation; `holdfast.d.ts` has the type of its view. */
export class Feed {
  #conversation;
  #listeners = new Set();
  #stop = null;
  #stale = { state: true, messages: true };
  #reading = false;
  #streams = false;
  #told = false;
  #seen = 0;
  #from = null; // where the last exchange begins: the cursor, and how many of the recent messages are before it
  #recent = [];
  #past = []; // those that were read in front of the recent ones
  #before = null; // the cursor for those in front of them
  #earlier = null;

  constructor(conversation) {
    this.#conversation = conversation;
    this.view = {
      phase: "loading",
      error: null,
      state: null,
      messages: [],
      older: { count: 0, more: false },
      queued: [],
      writing: null,
      preparing: new Map(),
      held: new Map(),
      progress: new Map(),
      settled: new Map(),
      provided: [],
      here: new Set(),
    };
  }

  /** Add a listener; returns the function that removes it. */
  add(listener) {
    const held = (view) => listener(view);
    this.#listeners.add(held);
    if (this.#stop === null) this.#begin();
    held(this.view);
    return () => {
      this.#listeners.delete(held);
      if (!this.#listeners.size) {
        this.#stop?.abort();
        this.#stop = null;
      }
    };
  }

  /** Note a decision of this page; its event may have come already. */
  decided(suspensionId, made, receipt) {
    const { decision } = made;
    const said = {
      by: decision,
      decision,
      principal: null,
      body: bodyOf(made),
      at: receipt.accepted_at,
      decisionId: receipt.decision_id,
    };
    this.#settle(suspensionId, { ...said, ...this.view.settled.get(suspensionId), mine: true });
    this.#tell();
  }

  #settle(suspensionId, settled) {
    const { settled: all, state } = this.view;
    all.set(suspensionId, settled);
    if (all.size > MOST_SETTLED) all.delete(all.keys().next().value);
    if (state) this.view.state = { ...state, pending: state.pending.filter((call) => call.suspension_id !== suspensionId) };
  }

  /** Read the page in front of the messages of the view. */
  async earlier() {
    const { signal } = this.#stop ?? {};
    if (this.#before === null || !signal || this.#earlier === signal) return;
    this.#earlier = signal;
    try {
      const { items, previous } = await this.#conversation.messagesBefore(this.#before, { limit: AT_ONCE, signal });
      this.#past.unshift(...items);
      this.#before = previous;
      this.#show();
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      if (this.#earlier === signal) this.#earlier = null;
    }
  }

  #show() {
    const { view } = this;
    view.messages = [...this.#past, ...this.#recent];
    view.older = { count: this.#past.length, more: this.#before !== null };
    this.#tell();
  }

  async #begin() {
    const stop = (this.#stop = new AbortController());
    const { signal } = stop;
    this.#stale = { state: true, messages: true };
    this.#reading = this.#streams = false;
    try {
      await this.#upToDate(signal);
      this.#seen ||= this.view.state.seq;
      const onConnection = (now) => {
        this.#streams = now === "live";
        if (now !== "connecting") this.#phase(now);
      };
      for await (const event of this.#conversation.events({ after: this.#seen, signal, onConnection }))
        this.#apply(event, signal);
      if (!signal.aborted) this.#phase("ended");
    } catch (error) {
      if (!signal.aborted) this.#phase("failed", error);
    }
  }

  #phase(phase, error = null) {
    if (this.view.phase === phase && error === null) return;
    Object.assign(this.view, { phase, error });
    if (phase === "offline") Object.assign(this.view, { writing: null, preparing: new Map() }); // live events are missed
    this.#tell();
  }

  /** Read everything that is out of date; try again while the server does not answer. */
  async #upToDate(signal) {
    if (this.#reading) return;
    this.#reading = true;
    try {
      for (let tries = 0; this.#stale.state; tries++) {
        const { messages } = this.#stale;
        this.#stale = { state: false, messages: false };
        try {
          const state = await this.#conversation.state({ signal, ...READ });
          const found = messages ? await this.#newer(signal) : {};
          signal.throwIfAborted();
          this.#take(state, found);
          if (this.#streams) this.#phase("live");
          tries = 0;
        } catch (error) {
          this.#stale = { state: true, messages: messages || this.#stale.messages };
          if (signal.aborted || !passes(error)) throw error;
          this.#phase("offline");
          await pause(backoff(tries, 1_000), signal);
        }
      }
    } finally {
      if (!signal.aborted) this.#reading = false;
    }
    this.#tell();
  }

  #take(state, { recent = this.#recent, from = this.#from, before = this.#before }) {
    const { view } = this;
    this.#from = from;
    this.#recent = recent;
    this.#before = before;
    this.#show();
    const open = state.pending.filter((call) => !view.settled.has(call.suspension_id));
    view.state = { ...state, pending: open };
    if (view.writing?.done <= state.seq) view.writing = null;
    for (const { tool_call_id: id } of [...state.pending, ...state.running]) view.held.delete(id);
    const runs = new Set([...state.running, ...open.filter((call) => call.claimed)].map((run) => run.tool_call_id));
    for (const call of view.progress.keys()) if (!runs.has(call)) view.progress.delete(call);
  }

  /** The recent messages. Only the last exchange is read again, since results are inserted into it as they come. */
  async #newer(signal) {
    if (this.#from === null) {
      const { items, previous, again, at } = await this.#conversation.messagesBefore("end", { limit: AT_ONCE, signal, ...READ });
      const from = again === null ? { cursor: previous ?? "0", count: 0 } : { cursor: again, count: at };
      return { recent: items, from, before: previous };
    }
    const { cursor, count } = this.#from;
    const { items, again, at } = await this.#conversation.messagesFrom(cursor, { signal, ...READ });
    const from = again === null ? this.#from : { cursor: again, count: count + at };
    return { recent: [...this.#recent.slice(0, count), ...items], from };
  }

  #apply(event, signal) {
    const { view } = this;
    if (event.live) {
      this.#live(event);
      return;
    }
    this.#seen = event.seq;
    switch (event.kind) {
      case "message_accepted":
        view.queued = [...view.queued, { seq: event.seq, text: event.text }].slice(-100);
        break;
      case "turn_started":
        view.queued = view.queued.filter((message) => message.seq !== event.message_seq);
        view.provided = [];
        view.held.clear();
        break;
      case "model_answered":
        if (view.writing) view.writing.done = event.seq; // shown until the message is here
        view.preparing = new Map();
        view.provided = provided(event);
        break;
      case "suspension_settled": {
        const { by, decision, principal, body, reason, at, decision_id: decisionId } = event;
        const known = view.settled.get(event.suspension_id);
        this.#settle(event.suspension_id, { ...known, by, decision, principal, body, reason, at, decisionId });
        break;
      }
      case "call_held":
        view.held.set(event.tool_call_id, { tool: event.tool });
        break;
      case "call_suspended":
      case "run_scheduled":
      case "call_resolved":
        view.held.delete(event.tool_call_id);
        break;
      case "turn_completed":
      case "turn_failed":
      case "turn_cancelled":
        view.held.clear();
        Object.assign(view, { writing: null, preparing: new Map() });
        break;
      default:
    }
    this.#stale = { state: true, messages: this.#stale.messages || SAID.has(event.kind) };
    this.#upToDate(signal).catch((error) => signal.aborted || this.#phase("failed", error));
    this.#tell();
  }

  #live(event) {
    const { view } = this;
    const effect = `${event.effect_id}#${event.attempt}`;
    switch (event.kind) {
      case "text_delta": {
        const before = view.writing?.effect === effect ? view.writing.text : "";
        view.writing = { effect, text: (before + event.text).slice(0, MOST_LIVE_CHARS) };
        break;
      }
      case "arguments_delta":
        view.preparing.set(`${event.effect_id}.${event.index}`, { tool: event.tool });
        break;
      case "progress":
        view.progress.set(event.effect_id.split("#")[0], event);
        break;
      default:
        return;
    }
    this.#tell();
  }

  /** Call the listeners, once for all changes made at once. */
  #tell() {
    if (this.#told) return;
    this.#told = true;
    queueMicrotask(() => {
      this.#told = false;
      for (const listener of [...this.#listeners]) {
        try {
          listener(this.view);
        } catch (error) {
          globalThis.reportError(error);
        }
      }
    });
  }
}

/** Whether the next try may succeed. */
function passes(error) {
  return error instanceof HoldfastError && (error.code === "unreachable" || error.status === 429 || error.status >= 500);
}

/** The calls that the provider executed in an answer, as far as the provider's record can be read. */
function provided({ seq, provider }) {
  try {
    const blocks = JSON.parse(provider ?? "null")?.blocks ?? [];
    const calls = blocks.filter((block) => block?.type === "server_tool_use" && typeof block.name === "string");
    return calls.slice(0, 50).map(({ name, input }, place) => ({ key: `${seq}.${place}`, tool: name, input }));
  } catch {
    return [];
  }
}
