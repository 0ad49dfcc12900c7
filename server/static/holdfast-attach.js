/** Runs the client's tools (`executor="client"`) in a page: the handler of the tool's name runs a call, and its outcome is sent. */
import { answer, fail } from "./holdfast-decisions.js";
import { StaleCall } from "./holdfast-errors.js";
import { parsed, written } from "./holdfast-json.js";
import { newId } from "./holdfast-wire.js";

const DONE = new WeakMap(); // the suspensions that were begun, by conversation: attaching again begins none twice
const TIMEOUT_MS = 60_000;
const MOST_RESULT_BYTES = 256 * 1024; // what an agent's limits allow unless they say otherwise
const MOST_ERROR_CHARS = 1_000;

/**
 * Run the calls that wait for the client, now or later, and whose tool has a handler. Calls of other tools are left to other
 * clients. The handler's return value is the result; the model reads an error that it throws.
 */
export function attach({ conversation, handlers, timeoutMs = TIMEOUT_MS, signal, onSettled = () => {} }) {
  for (const [name, handler] of Object.entries(handlers)) {
    if (typeof handler !== "function") throw new TypeError(`handlers: ${name} is no function`);
  }
  const running = new Map();
  const done = DONE.get(conversation) ?? new Set();
  DONE.set(conversation, done);

  async function run(call, mine) {
    const { stop, left } = mine;
    const decision = await outcome(call, stop.signal, left.signal);
    if (stop.signal.aborted) return "stale";
    if (decision === null) { // the handler gave up because the page detached: the next `attach` may begin the call
      done.delete(call.suspension_id);
      return "stale";
    }
    const options = { signal: stop.signal, patienceMs: Infinity }; // until it is settled
    try {
      await conversation.resolve(call, decision, { ...options, decisionId: mine.decisionId });
    } catch (error) {
      if (error.status !== 422) throw error;
      const refused = fail(`the result was not taken: ${error.detail}`.slice(0, MOST_ERROR_CHARS));
      mine.decisionId = newId();
      await conversation.resolve(call, refused, { ...options, decisionId: mine.decisionId });
      return refused.decision;
    }
    return decision.decision;
  }

  /** Run the handler: its answer, or a failure; null if the page detached. */
  async function outcome(call, settled, left) {
    const ended = AbortSignal.timeout(Math.max(Math.min(timeoutMs, 2 ** 31 - 1), 1));
    const over = AbortSignal.any([settled, ended]);
    const late = new Promise((_, reject) => over.addEventListener("abort", () => reject(over.reason)));
    try {
      const context = { call, conversation, signal: AbortSignal.any([over, left]) };
      const value = await Promise.race([(async () => handlers[call.tool](call.arguments, context))(), late]);
      const text = written(value === undefined ? null : value);
      if (text === undefined) return fail(`the result of ${call.tool} is no JSON value`);
      const size = new TextEncoder().encode(text).length;
      if (size > MOST_RESULT_BYTES)
        return fail(`the result of ${call.tool} has ${size} bytes, ${MOST_RESULT_BYTES} are allowed`);
      return answer(parsed(text));
    } catch (error) {
      if (left.aborted && !ended.aborted && !settled.aborted) return null;
      if (ended.aborted) return fail(`${call.tool} took longer than ${timeoutMs / 1000} s`);
      return fail(String(error?.message || error).slice(0, MOST_ERROR_CHARS));
    }
  }

  function begin(call) {
    const mine = { stop: new AbortController(), left: new AbortController(), decisionId: newId() };
    running.set(call.suspension_id, mine);
    done.add(call.suspension_id);
    const lost = (error) => error instanceof StaleCall || mine.stop.signal.aborted;
    run(call, mine)
      .then((outcome) => ({ call, outcome }))
      .catch((error) => ({ call, outcome: lost(error) ? "stale" : "error", error }))
      .then((settled) => {
        running.delete(call.suspension_id);
        onSettled(settled);
      });
  }

  const end = conversation.watch(({ state, settled }) => {
    for (const [suspension, { stop, decisionId }] of running) {
      const found = settled.get(suspension);
      if (found && found.decisionId !== decisionId && !found.mine) stop.abort(new Error("the call is settled"));
    }
    for (const call of state?.pending ?? []) {
      const ours = call.decisions?.includes("answer") ?? true; // false: this page's token may not answer such calls
      const whole = !call.problem && !Object.keys(call.cut ?? {}).length;
      if (call.kind === "client_exec" && ours && whole && Object.hasOwn(handlers, call.tool)) {
        if (!done.has(call.suspension_id)) begin(call);
      }
    }
  });
  const detach = () => {
    end();
    for (const { left } of running.values()) left.abort(new Error("the page has detached"));
  };
  signal?.aborted ? detach() : signal?.addEventListener("abort", detach, { once: true });
  return { detach };
}
