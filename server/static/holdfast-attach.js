/**
 * Runs the client's tools (`executor="client"`) in a page: the page is present over a stream, claims a call before the handler of
 * its tool runs it, and sends the outcome. A page whose token does not lend `client` answers without a claim, if it may decide.
 */
import { pageId } from "./holdfast-client-id.js";
import { answer, fail } from "./holdfast-decisions.js";
import { StaleCall } from "./holdfast-errors.js";
import { parsed, written } from "./holdfast-json.js";
import { newId } from "./holdfast-wire.js";

const TIMEOUT_MS = 60_000;
const MOST_RESULT_BYTES = 256 * 1024; // what an agent's limits allow unless they say otherwise
const MOST_ERROR_CHARS = 1_000;
const AT_ONCE = 16; // calls that one page runs; further ones wait for it or for another client
const MOST_REMEMBERED = 1_000; // attempts of calls, so that none is begun or given back twice

/**
 * Run the calls that wait for the client, now or later, and whose tool has a handler. Calls of other tools, and those that another
 * client has claimed, are left to other clients. The handler's return value is the result; the model reads an error that it throws.
 */
export function attach({ conversation, handlers, signal, ...options }) {
  for (const [name, handler] of Object.entries(handlers)) {
    if (typeof handler !== "function") throw new TypeError(`handlers: ${name} is no function`);
  }
  const attached = new Attachment(conversation, handlers, options);
  const detach = () => attached.detach();
  signal?.aborted ? detach() : signal?.addEventListener("abort", detach, { once: true });
  return { detach };
}

const SHARED = new WeakMap(); // by conversation: what its attachments in this page must not do twice

/** What the attachments of one conversation share: the numbers that are taken, and the calls that were begun or given back. */
function sharedOf(conversation) {
  if (!SHARED.has(conversation)) SHARED.set(conversation, { numbers: new Set(), begun: new Set(), ended: new Set() });
  return SHARED.get(conversation);
}

const keyOf = (call, attempt) => `${call.suspension_id}#${attempt}`;

function remember(attempts, one) {
  attempts.add(one);
  if (attempts.size > MOST_REMEMBERED) attempts.delete(attempts.values().next().value);
}

/** The handlers of one `attach`, and the calls that they run. */
class Attachment {
  #conversation;
  #handlers;
  #options;
  #shared;
  #number = 0;
  #id = "";
  #does = "nothing"; // or "claim", while it is present; or "answer", without a claim
  #view = null;
  #running = new Map(); // by suspension
  #over = new AbortController();
  #away = null; // ends the presence
  #unwatch;

  constructor(conversation, handlers, { onDetach = "keep", timeoutMs = TIMEOUT_MS, onSettled = () => {} }) {
    this.#conversation = conversation;
    this.#handlers = handlers;
    this.#options = { onDetach, timeoutMs, onSettled };
    this.#shared = sharedOf(conversation);
    while (this.#shared.numbers.has(this.#number)) this.#number += 1;
    this.#shared.numbers.add(this.#number);
    const { signal } = this.#over;
    globalThis.addEventListener("pagehide", () => this.#close(), { signal });
    globalThis.addEventListener("pageshow", ({ persisted }) => persisted && this.#come(), { signal });
    this.#unwatch = conversation.watch((view) => {
      this.#view = view;
      if (this.#away === null && view.state !== null) this.#come();
      this.#look();
    });
  }

  /** Stop: handlers are told, and the calls that they have not finished are given back. */
  async detach() {
    if (this.#over.signal.aborted) return;
    this.#over.abort();
    this.#unwatch();
    this.#does = "nothing";
    const runs = [...this.#running.values()];
    for (const { left } of runs) left.abort(new Error("the page has detached"));
    this.#away?.abort();
    await Promise.allSettled(runs.map(({ ended }) => ended));
    this.#shared.numbers.delete(this.#number);
  }

  /** The page closes, or rests in the browser's cache: what goes out now is sent even if the page is gone. */
  #close() {
    this.#away?.abort();
    if (this.#does === "answer") return;
    this.#does = "nothing";
    for (const mine of this.#running.values()) {
      this.#giveBack(mine, { keepalive: true });
      mine.stop.abort(new Error("the page closes"));
    }
  }

  /** Be present until the page detaches or closes. */
  async #come() {
    const away = (this.#away = new AbortController());
    this.#id ||= (await pageId()) + (this.#number ? `.${this.#number}` : "");
    if (!this.#conversation.lends("client")) return this.#do("answer");
    const { onDetach } = this.#options;
    const onConnection = (now) => now === "live" || away.signal.aborted || this.#do("nothing");
    const presence = { clientId: this.#id, tools: Object.keys(this.#handlers), onDetach, signal: away.signal, onConnection };
    try {
      for await (const _ of this.#conversation.presence(presence)) this.#do("claim"); // the first says that it is present
      if (!away.signal.aborted) this.#do("nothing"); // the conversation has ended
    } catch (error) {
      if (error.code === "not_permitted" && error.fields.scope === "client") this.#do("answer");
      else globalThis.reportError(error);
    }
  }

  #do(what) {
    this.#does = this.#over.signal.aborted ? "nothing" : what;
    this.#look();
  }

  /** Stop what is settled or claimed elsewhere, and begin what waits. */
  #look() {
    const { state, settled } = this.#view;
    const pending = state?.pending ?? [];
    for (const [suspension, mine] of this.#running) {
      const found = settled.get(suspension);
      if (found && found.decisionId !== mine.decisionId && !found.mine) mine.stop.abort(new Error("the call is settled"));
      if (mine.claim === null || state.seq <= mine.claim.seq) continue;
      const waits = pending.find((call) => call.suspension_id === suspension);
      if (waits && !this.#isOwn(waits)) mine.stop.abort(new Error("the call is no longer this page's"));
    }
    if (this.#does === "nothing") return;
    for (const call of pending) if (call.kind === "client_exec" && !this.#running.has(call.suspension_id)) this.#take(call);
  }

  #isOwn = ({ claimed }) => claimed?.client_id === this.#id;

  #take(call) {
    const { begun, ended } = this.#shared;
    const attempt = keyOf(call, call.attempt);
    if (call.claimed) {
      if (this.#does === "claim" && this.#isOwn(call) && !ended.has(attempt)) { // from before a reload
        remember(ended, attempt);
        const options = { clientId: this.#id, attempt: call.attempt, signal: this.#over.signal, patienceMs: Infinity };
        this.#conversation.giveBack(call, options).catch(() => {}); // it is settled, or no longer this client's
      }
      return;
    }
    if (this.#running.size >= AT_ONCE) return;
    const may = this.#does === "claim" || this.#conversation.decides(call.kind);
    const ours = may && (call.decisions?.includes("answer") ?? true); // false: this page's token may not answer such calls
    const whole = !call.problem && !Object.keys(call.cut ?? {}).length;
    if (!ours || !whole || !Object.hasOwn(this.#handlers, call.tool) || begun.has(attempt)) return;
    remember(begun, attempt);
    this.#begin(call, attempt);
  }

  #begin(call, attempt) {
    const mine = { call, claim: null, began: false, stop: new AbortController(), left: new AbortController(), decisionId: newId() };
    this.#running.set(call.suspension_id, mine);
    this.#view.here.add(call.suspension_id);
    const lost = (error) => error instanceof StaleCall || mine.stop.signal.aborted;
    mine.ended = this.#run(mine, attempt)
      .then((outcome) => ({ call, outcome }))
      .catch((error) => {
        if (lost(error)) return { call, outcome: "stale", error };
        if (mine.claim) remember(this.#shared.begun, keyOf(call, mine.claim.attempt)); // the next attempt is another client's
        this.#giveBack(mine);
        return { call, outcome: "error", error };
      })
      .then((settled) => {
        this.#running.delete(call.suspension_id);
        this.#view.here.delete(call.suspension_id);
        this.#options.onSettled(settled);
        this.#look();
      });
  }

  async #run(mine, attempt) {
    const { call, stop, left } = mine;
    const options = { clientId: this.#id, signal: stop.signal, patienceMs: Infinity }; // until it is settled
    if (this.#does === "claim") {
      mine.claim = await this.#conversation.claim(call, { ...options, onDetach: this.#options.onDetach });
      remember(this.#shared.ended, keyOf(call, mine.claim.attempt));
      if (mine.claim.duplicate && !(await this.#holds(mine))) return "stale";
      stop.signal.throwIfAborted();
    }
    const decision = left.signal.aborted ? null : await this.#outcome(mine);
    stop.signal.throwIfAborted();
    if (decision === null) { // the page has detached
      if (mine.claim === null) this.#shared.begun.delete(attempt);
      else await this.#giveBack(mine);
      return "stale";
    }
    const { clientId: _, ...unclaimed } = options;
    const decided = mine.claim === null ? unclaimed : options;
    try {
      await this.#conversation.resolve(call, decision, { ...decided, decisionId: mine.decisionId });
    } catch (error) {
      if (error.status !== 422) throw error;
      const refused = fail(`the result was not taken: ${error.detail}`.slice(0, MOST_ERROR_CHARS));
      mine.decisionId = newId();
      await this.#conversation.resolve(call, refused, { ...decided, decisionId: mine.decisionId });
      return refused.decision;
    }
    return decision.decision;
  }

  /** Whether a claim whose answer came late still stands. */
  async #holds({ call, claim, stop }) {
    const { pending } = await this.#conversation.state({ signal: stop.signal, patienceMs: Infinity });
    const now = pending.find(({ suspension_id: id }) => id === call.suspension_id);
    return now?.attempt === claim.attempt && this.#isOwn(now);
  }

  /** Give a claimed call back. With `onDetach: "cancel"` it stays claimed, so that it ends unless the client is soon back. */
  #giveBack({ call, claim, began }, options = {}) {
    if (claim === null) return null;
    this.#shared.ended.delete(keyOf(call, claim.attempt));
    if (this.#options.onDetach === "cancel") return null;
    const given = { clientId: this.#id, attempt: claim.attempt, began, ...options };
    return this.#conversation.giveBack(call, given).catch(() => {}); // the server finds out that the client is gone
  }

  /** Run the handler: its answer, or a failure; null if the page detached. */
  async #outcome(mine) {
    const { call, claim, stop, left } = mine;
    const { timeoutMs } = this.#options;
    const late = AbortSignal.timeout(Math.max(Math.min(timeoutMs, 2 ** 31 - 1), 1));
    const signal = AbortSignal.any([stop.signal, left.signal, late]);
    const ended = new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    mine.began = true;
    try {
      const reportProgress = claim === null ? () => {} : this.#reporter(call, signal);
      const context = { call, conversation: this.#conversation, attempt: claim?.attempt ?? 1, signal, reportProgress };
      const value = await Promise.race([(async () => this.#handlers[call.tool](call.arguments, context))(), ended]);
      const text = written(value === undefined ? null : value);
      if (text === undefined) return fail(`the result of ${call.tool} is no JSON value`);
      const size = new TextEncoder().encode(text).length;
      if (size > MOST_RESULT_BYTES)
        return fail(`the result of ${call.tool} has ${size} bytes, ${MOST_RESULT_BYTES} are allowed`);
      return answer(parsed(text));
    } catch (error) {
      if (late.aborted) return fail(`${call.tool} took longer than ${timeoutMs / 1000} s`);
      if (left.signal.aborted) return null;
      return fail(String(error?.message || error).slice(0, MOST_ERROR_CHARS));
    }
  }

  /** A function that reports a run's progress; of reports that are made while one is on its way, the last is sent. */
  #reporter(call, signal) {
    let next = null;
    let going = false;
    return async (value, how = {}) => {
      next = { value, ...how };
      if (going) return;
      for (going = true; next !== null && !signal.aborted;) {
        const said = next;
        next = null;
        const sent = this.#conversation.reportProgress(call, said, { clientId: this.#id, signal, patienceMs: 3_000 });
        await sent.catch((error) => error.status === 422 && globalThis.reportError(error));
      }
      going = false;
    };
  }
}
