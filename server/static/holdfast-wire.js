/** Requests to one server: the token, repeated tries with the same key, bounds of time and size. */
import { HoldfastError, errorOf } from "./holdfast-errors.js";
import { parsed, written } from "./holdfast-json.js";

const TRY_MS = 30_000; // one try of a request
const MOST_CHARS = 64 << 20; // of one answer
const EARLY_MS = 30_000; // a token is replaced this long before its end
const LEAST_MS = 10_000; // a token is used at least this long, even if the clock of this machine is wrong
const BACKOFF_MS = { least: 250, most: 5_000 };
const MOST_RETRY_AFTER_MS = 60_000;

export class Wire {
  #url;
  #given;
  #token = null;
  #asking = null;
  #lent = {};

  /**
   * `url` is where the server is; "" is the page's own origin. A `token` is a text, the reply of `/v1/page-tokens`, or a function
   * that returns one of them and is called when one is needed.
   */
  constructor(url, token) {
    const base = new URL(url || "/", document.baseURI);
    if (base.username || base.password || base.search || base.hash) {
      throw new TypeError("url: name the server by scheme, host and path alone; the token has a field of its own");
    }
    this.#url = base.href.replace(/\/+$/, "");
    this.#given = typeof token === "object" ? (token?.token ?? null) : (token ?? null);
    this.#lent = { scopes: token?.scopes, kinds: token?.kinds };
  }

  /** Whether the token has this scope, as its maker said; the server judges anyway. */
  lends(scope) {
    const { scopes } = this.#lent;
    return !Array.isArray(scopes) || scopes.includes(scope);
  }

  /** Whether the token may decide calls of this kind, as its maker said; the server judges anyway. */
  decides(kind) {
    const { kinds } = this.#lent;
    return this.lends("decide") && (!Array.isArray(kinds) || kinds.includes(kind));
  }

  /** Open a request; the response has any status but 401 with a token that could be replaced. */
  async open(path, { method = "GET", headers = {}, body, keepalive, signal } = {}) {
    for (let refused = null; ;) {
      const token = await this.#bearer(refused);
      const response = await fetch(this.#url + path, {
        method,
        headers: token === null ? headers : { ...headers, Authorization: `Bearer ${token}` },
        body,
        keepalive,
        signal,
        cache: "no-store",
        redirect: "error",
        credentials: token === null ? "same-origin" : "omit",
      });
      if (response.status !== 401 || refused !== null || typeof this.#given !== "function") return response;
      refused = token;
      await response.body?.cancel();
    }
  }

  /**
   * The JSON answer to a request. For `patienceMs`, a request without an answer, or with a temporary refusal, is sent again: a
   * command has an idempotency `key`, which makes that safe. One with `keepalive` is sent even if the page closes.
   */
  async call(method, path, { body, key, keepalive, signal, patienceMs = 60_000 } = {}) {
    const headers = { Accept: "application/json" };
    if (body !== undefined) headers["Content-Type"] = "application/json";
    if (key !== undefined) headers["Idempotency-Key"] = key;
    const until = performance.now() + patienceMs;
    for (let tries = 0; ; tries++) {
      signal?.throwIfAborted();
      let failure, waitMs;
      try {
        const response = await this.open(path, {
          method,
          headers,
          body: body && written(body),
          keepalive,
          signal: within(TRY_MS, signal),
        });
        const answer = parsed(await textOf(response));
        if (response.ok && answer !== undefined) return answer;
        failure = errorOf(answer, response.status);
        waitMs = passing(response, failure);
        if (waitMs === null) throw failure;
      } catch (error) {
        if (error === failure || error instanceof HoldfastError) throw error;
        signal?.throwIfAborted();
        failure = error;
      }
      waitMs = Math.max(waitMs ?? 0, backoff(tries));
      if (performance.now() + waitMs > until) throw this.#givenUp(failure, key);
      await pause(waitMs, signal);
    }
  }

  #givenUp(cause, key) {
    if (cause instanceof HoldfastError && cause.code !== "not_holdfast") return cause;
    const detail = key === undefined ? "the server does not answer" : "no answer came: it may have been recorded";
    return new HoldfastError({ code: key === undefined ? "unreachable" : "outcome_unknown", detail, cause });
  }

  /** The token to send. The application gives a new one if there is none, or the last was refused or is about to end. */
  async #bearer(refused) {
    if (typeof this.#given !== "function") return this.#given;
    const { text = refused, until = 0 } = this.#token ?? {};
    if (text !== refused && Date.now() < until) return text;
    this.#asking ??= this.#ask().finally(() => (this.#asking = null));
    return (await this.#asking).text;
  }

  async #ask() {
    const signal = AbortSignal.timeout(TRY_MS);
    const late = new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    const found = await Promise.race([this.#given({ signal }), late]);
    const { token, expires_at: ends = Infinity, scopes, kinds } = typeof found === "string" ? { token: found } : (found ?? {});
    if (typeof token !== "string" || !token) {
      throw new HoldfastError({ code: "no_token", detail: "the application gave no token" });
    }
    this.#lent = { scopes, kinds };
    this.#token = { text: token, until: Math.max(Number(ends) - EARLY_MS, Date.now() + LEAST_MS) };
    return this.#token;
  }
}

/** A new idempotency key. */
export function newId() {
  const drawn = crypto.getRandomValues(new Uint8Array(16)); // randomUUID exists only in secure contexts
  return Array.from(drawn, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** How long to wait after a number of failed tries: twice as long each time, with jitter. */
export function backoff(tries, least = BACKOFF_MS.least, most = BACKOFF_MS.most) {
  return Math.min(least * 2 ** Math.min(tries, 10), most) * (0.5 + Math.random() / 2);
}

/** Wait; `hint` is an event target whose event `hint` ends the wait early. */
export function pause(ms, signal, hint) {
  return new Promise((resolve, reject) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      hint?.removeEventListener("hint", done);
      signal?.aborted ? reject(signal.reason) : resolve();
    };
    const timer = setTimeout(done, ms);
    signal?.addEventListener("abort", done);
    hint?.addEventListener("hint", done);
    if (signal?.aborted) done();
  });
}

/** The error of a response that is no success. */
export async function problemOf(response) {
  return errorOf(parsed(await textOf(response)), response.status);
}

/** How long a refusal asks to wait, in ms; null where it is final. */
export function passing(response, error) {
  const after = Number(response.headers.get("Retry-After"));
  if (after > 0) return Math.min(after * 1000, MOST_RETRY_AFTER_MS);
  const proxy = response.status >= 502 && response.status <= 504 && error.code === "not_holdfast";
  return proxy || response.status === 504 ? 0 : null;
}

function within(ms, signal) {
  const timeout = AbortSignal.timeout(ms);
  return signal ? AbortSignal.any([signal, timeout]) : timeout;
}

async function textOf(response) {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (let piece; reader && !(piece = await reader.read()).done;) {
    text += piece.value;
    if (text.length > MOST_CHARS) {
      await reader.cancel();
      throw new HoldfastError({ code: "too_large", status: response.status, detail: "the answer is larger than a page takes" });
    }
  }
  return text;
}
