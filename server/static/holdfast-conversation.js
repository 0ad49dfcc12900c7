/** A client of one server, and its conversations. `holdfast.d.ts` has the types of arguments and results. */
import { attach } from "./holdfast-attach.js";
import { StaleCall } from "./holdfast-errors.js";
import { Feed } from "./holdfast-feed.js";
import { written } from "./holdfast-json.js";
import { follow } from "./holdfast-stream.js";
import { Wire, newId } from "./holdfast-wire.js";

const MOST_REMEMBERED = 100; // decisions of one page whose keys are remembered, so that none is sent under two keys
const PAGE = 1000; // messages in one answer
const KINDS = ["approval", "elicitation", "client_exec", "lost", "review"]; // of pending calls

const pathOf = ({ suspension_id: id }) => `/v1/pending/${encodeURIComponent(id)}`;

/** A client of a Holdfast server. A `token` that is a function is called when one is needed, before one ends, and when it is refused. */
export function connect({ url = "", token, conversationId } = {}) {
  return new Client(new Wire(url, token), conversationId);
}

/** A client of one server; `connect` makes it. */
export class Client {
  #wire;
  #named;
  #known = new Map();

  constructor(wire, conversationId) {
    this.#wire = wire;
    this.#named = conversationId;
  }

  /** A conversation: the same object for the same id, so that all its elements share one stream. */
  conversation(id = this.#named) {
    if (typeof id !== "string" || !/^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$/.test(id)) {
      throw new TypeError("conversation: name it by its id, of 1 to 128 letters, digits, '.', '_', ':' or '-'");
    }
    if (!this.#known.has(id)) this.#known.set(id, new Conversation(this.#wire, id));
    return this.#known.get(id);
  }
}

/** One conversation. A command is durable once its promise is fulfilled; it happens once, even if it was sent repeatedly. */
export class Conversation {
  #wire;
  #path;
  #feed = null;
  #decided = new Map();

  constructor(wire, id) {
    this.id = id;
    this.#wire = wire;
    this.#path = `/v1/conversations/${encodeURIComponent(id)}`;
  }

  /** The conversation's state: its status, its pending and running calls, and the `seq` of its last event. */
  async state({ signal, patienceMs } = {}) {
    const state = await this.#wire.call("GET", this.#path, { signal, patienceMs });
    const pending = await Promise.all(state.pending.map((call) => this.#whole(call, { signal, patienceMs })));
    return { ...state, pending };
  }

  /** A call, whole: one that a list cuts is read by itself. A call that was settled meanwhile is returned as it is. */
  async #whole(call, options) {
    if (!Object.keys(call.cut ?? {}).length) return call;
    const where = `${pathOf(call)}?conversation_id=${encodeURIComponent(this.id)}`;
    try {
      return await this.#wire.call("GET", where, options);
    } catch (error) {
      if (error instanceof StaleCall) return call;
      throw error;
    }
  }

  /** The conversation, and those below it that it has delegated to; what they are is told to a page whose token has `tree`. */
  tree({ signal, patienceMs } = {}) {
    return this.#wire.call("GET", `${this.#path}/tree`, { signal, patienceMs });
  }

  /** The messages from the `after`-th on, in the chat format of OpenAI. */
  async messages({ after = 0, signal, patienceMs } = {}) {
    return (await this.messagesFrom(String(after), { signal, patienceMs })).items;
  }

  /**
   * The messages from a cursor on. `again` is the cursor of the last message that is no call's result, and `at` its place in
   * `items`: results are inserted behind it as they come. `again` is null if there is no such message.
   */
  async messagesFrom(cursor = "0", { signal, patienceMs } = {}) {
    const found = { items: [], again: null, at: 0 };
    for (let next = cursor; next !== null;) {
      const page = await this.#page({ limit: PAGE, after: next }, { signal, patienceMs });
      if (page.again !== null) Object.assign(found, { again: page.again, at: found.items.length + page.at });
      found.items.push(...page.items);
      next = page.next;
    }
    return found;
  }

  /** The last `limit` messages before a cursor, by default the last of all; `previous` is the cursor for those before them. */
  messagesBefore(cursor = "end", { limit = 50, ...options } = {}) {
    return this.#page({ limit, before: cursor }, options);
  }

  async #page(place, options) {
    const page = await this.#wire.call("GET", `${this.#path}/messages?${new URLSearchParams(place)}`, options);
    return { ...page, at: Math.max(page.items.findLastIndex((message) => message.role !== "tool"), 0) };
  }

  /**
   * Send the user's next message, a text or a list of parts; during a turn it does what `when` says: `queue` (in order within a `priority`, 0 to 255),
   * `reject`, `steer` (it joins the turn before the next model call) or `interrupt`. `at`, a `Date`, is when it is queued.
   * `overrides` are for its turn's model calls, as far as the agent allows. `messageId` is its idempotency key.
   */
  send(text, { when, at, priority, origin, overrides, messageId = newId(), signal } = {}) {
    const body = { text, when, at: at?.toISOString(), priority, origin, overrides };
    return this.#wire.call("POST", `${this.#path}/messages`, { body, key: messageId, signal });
  }

  /** Cancel the turn and what is queued, and go on with `text`, if it is given; `requestId` is the message's id, too. */
  interrupt(text, { origin, overrides, requestId = newId(), signal } = {}) {
    const body = { text, origin, overrides };
    return this.#wire.call("POST", `${this.#path}/interrupt`, { body, key: requestId, signal });
  }

  /** The messages that no turn has taken up yet. */
  async queue({ signal, patienceMs } = {}) {
    return (await this.#wire.call("GET", `${this.#path}/queue`, { signal, patienceMs })).items;
  }

  /** Withdraw a message before its turn begins. */
  withdraw(messageId, { requestId = newId(), signal } = {}) {
    return this.#wire.call("DELETE", `${this.#path}/queue/${encodeURIComponent(messageId)}`, { key: requestId, signal });
  }

  /** Give a message that waits another time (`at`, a `Date`) or `priority`. */
  reschedule(messageId, { at, priority, requestId = newId(), signal } = {}) {
    const where = `${this.#path}/queue/${encodeURIComponent(messageId)}`;
    return this.#wire.call("PATCH", where, { body: { at: at?.toISOString(), priority }, key: requestId, signal });
  }

  /** Cancel the current turn; with an id, only if that turn is the current one. */
  cancel({ turnId, requestId = newId(), signal } = {}) {
    const body = turnId === undefined ? {} : { turn_id: turnId };
    return this.#wire.call("POST", `${this.#path}/cancel`, { body, key: requestId, signal });
  }

  /** Cancel the calls that wait, of a `kind`, or those that wait for a client alone; the turn goes on without them. */
  cancelPending({ kind, clientId, reason, requestId = newId(), signal } = {}) {
    const body = { kind, client_id: clientId, reason };
    return this.#wire.call("POST", `${this.#path}/cancel-pending`, { body, key: requestId, signal });
  }

  /** Claim a call for a client that is about to run it. Throws `StaleCall` with the reason `claimed` if it is claimed already. */
  claim(call, { clientId, onDetach, requestId = newId(), ...options }) {
    const body = { conversation_id: this.id, client_id: clientId, on_detach: onDetach };
    return this.#wire.call("POST", `${pathOf(call)}/claim`, { body, key: requestId, ...options });
  }

  /**
   * Give a claimed call back. If its handler `began`, its tool says whether it runs again. What a client gives back twice of the same
   * `attempt` is one request: the second one may come when the call is claimed again.
   */
  giveBack(call, { clientId, attempt, began = true, reason, ...options }) {
    const body = { conversation_id: this.id, client_id: clientId, began, reason };
    return this.#wire.call("POST", `${pathOf(call)}/give-back`, { body, key: `back-${call.suspension_id}-${attempt}`, ...options });
  }

  /** Report the progress of a claimed call: `value`, `message`, `status`, `loaded` and `total`. */
  reportProgress(call, said, { clientId, ...options }) {
    const body = { conversation_id: this.id, client_id: clientId, ...said };
    return this.#wire.call("POST", `${pathOf(call)}/progress`, { body, ...options });
  }

  /** A stream that says, while it is open, that a client is here and has these tools. */
  presence({ clientId, tools, onDetach, ...options }) {
    const named = [["client_id", clientId], ["on_detach", onDetach], ...tools.map((tool) => ["tools", tool])];
    return follow(this.#wire, `${this.#path}/attach?${new URLSearchParams(named)}`, options);
  }

  /**
   * Decide a pending call. The same decision on the same call has one idempotency key in this page, so that a second click, or
   * another try after a lost answer, is the same decision. The receipt has `settled: false` if others must agree, too. Throws
   * `StaleCall` if another decision has settled the call, or its deadline has passed. A call that a client has claimed is answered
   * with its `clientId`.
   */
  resolve(call, decision, { clientId, decisionId, signal, patienceMs } = {}) {
    const what = written([call.suspension_id, decision, decisionId ?? null]);
    const mine = this.#decided.get(what) ?? { id: decisionId ?? newId(), going: null };
    if (mine.going !== null) return mine.going;
    const named = { tool_call_id: call.tool_call_id, suspension_id: call.suspension_id, client_id: clientId };
    const body = { ...decision, ...named };
    mine.going = this.#wire
      .call("POST", `${this.#path}/resolve`, { body, key: mine.id, signal, patienceMs })
      .then((receipt) => {
        if (receipt.settled !== false) this.#feed?.decided(call.suspension_id, decision, receipt); // a vote leaves it waiting
        return receipt;
      })
      .finally(() => (mine.going = null));
    this.#decided.set(what, mine);
    if (this.#decided.size > MOST_REMEMBERED) this.#decided.delete(this.#decided.keys().next().value);
    return mine.going;
  }

  /**
   * The form of a call, as the server draws it for the elements: `nodes`, for `built`. If `fields` are given (encoded as a browser
   * encodes a form): the `decision` that they make, or the form again with its `problem`. Nothing is decided.
   */
  form(call, fields, { signal, patienceMs } = {}) {
    const where = `${pathOf(call)}/form?conversation_id=${encodeURIComponent(this.id)}`;
    const body = fields === undefined ? undefined : { fields };
    return this.#wire.call(body ? "POST" : "GET", where, { body, signal, patienceMs });
  }

  /** Whether this page has a scope, as the page token's reply says; true if unknown: the server judges anyway. */
  lends(scope) {
    return this.#wire.lends(scope);
  }

  /** Whether this page may decide calls of a kind, as the page token's reply says; true if unknown: the server judges anyway. */
  decides(kind) {
    return this.#wire.decides(kind);
  }

  /** Whether this page may give scopes and end grants: a page token may only if it decides calls of every kind. */
  grantsAllowed() {
    return KINDS.every((kind) => this.decides(kind));
  }

  /** The grants that stand: what runs in this conversation without asking. */
  async grants({ signal, patienceMs } = {}) {
    return (await this.#wire.call("GET", `${this.#path}/grants`, { signal, patienceMs })).items;
  }

  /** End a grant: once the promise is fulfilled, nothing begins by it. The reason is for the log. */
  revoke(grantId, { reason = "", requestId = newId(), signal, patienceMs } = {}) {
    const where = `${this.#path}/grants/${encodeURIComponent(grantId)}`;
    return this.#wire.call("DELETE", where, { ...(reason && { body: { reason } }), key: requestId, signal, patienceMs });
  }

  /**
   * The events, without gaps: each recorded one after `after` once and in order, and live ones (`live: true`) between them. The
   * stream survives cut connections and restarted servers; it ends with the conversation or by the signal.
   */
  events({ live = true, ...options } = {}) {
    return follow(this.#wire, `${this.#path}/events?live=${live}`, options);
  }

  /** Run the client's tools (`executor="client"`) in this page; see `attach` in `holdfast-attach.js`. */
  attach(handlers, options = {}) {
    return attach({ conversation: this, handlers, ...options });
  }

  /**
   * Call a listener with the view of the conversation (the data that elements show), now and whenever it changes. All listeners
   * share one stream, which is open while there are any. Returns a function that removes the listener.
   */
  watch(listener) {
    this.#feed ??= new Feed(this);
    return this.#feed.add(listener);
  }

  /** Put the messages before those of the view in front of them, while a listener watches it. */
  earlier() {
    return this.#feed?.earlier();
  }
}
