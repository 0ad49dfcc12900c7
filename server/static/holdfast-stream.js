/**
 * Event streams (server-sent events) over `fetch`, which can send a token as `EventSource` cannot.
 *
 * A stream that is cut off, falls silent or is drained is opened again after the last recorded event, so that each of them comes
 * once and none is left out.
 */
import { HoldfastError, errorOf } from "./holdfast-errors.js";
import { parsed } from "./holdfast-json.js";
import { backoff, passing, pause, problemOf } from "./holdfast-wire.js";

const SILENT_MS = 45_000; // the server says something every 15 s
const MOST_CHARS = 32 << 20; // of one event
const MOST_PAUSE_MS = 15_000;

/** The events of a stream, without gaps: each recorded one once and in order, live ones between them. */
export async function* follow(wire, path, { after = 0, signal, onConnection = () => {} } = {}) {
  const hints = new Hints();
  let tries = 0;
  try {
    while (!signal?.aborted) {
      let waitMs = null;
      let least = 500;
      try {
        onConnection(tries ? "offline" : "connecting");
        const opened = hints.opened(signal);
        const headers = { Accept: "text/event-stream", ...(after && { "Last-Event-ID": String(after) }) };
        const response = await wire.open(path, { headers, signal: opened });
        if (response.status === 204) return; // the conversation has ended, and all its events were received
        if (!response.ok) {
          const problem = await problemOf(response);
          waitMs = passing(response, problem);
          if (waitMs === null) throw problem;
        } else {
          onConnection("live");
          for await (const { event, data } of frames(response.body, hints)) {
            if (event !== "stream_closed") tries = 0;
            if (event === "") continue; // a heartbeat
            const said = parsed(data);
            if (said === undefined) break; // this is no stream of Holdfast's
            if (event === "stream_closed") {
              if (said.reason === "ended") return;
              if (said.reason === "failed") throw broken(said.problem);
              break;
            }
            if (said.seq !== null && said.seq <= after) continue;
            after = said.seq ?? after;
            yield said;
          }
          least = 100;
        }
      } catch (error) {
        if (signal?.aborted) return;
        if (error instanceof HoldfastError && !error.passes) throw error;
      } finally {
        hints.close();
      }
      onConnection("offline");
      await pause(Math.max(waitMs ?? 0, backoff(tries++, least, MOST_PAUSE_MS)), signal, hints).catch(() => {});
    }
  } finally {
    hints.end();
  }
}

/** The error with which a server ended a stream; its status says whether it is temporary. */
function broken(problem) {
  const error = errorOf(problem, 500);
  error.passes = error.status >= 429;
  return error;
}

/** The whole events of a stream, and its heartbeats (`event` is ""). */
export async function* frames(body, hints) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let searched = 0;
  try {
    for (let piece; !(piece = await reader.read()).done;) {
      hints.heard();
      text += piece.value;
      for (let end; (end = text.indexOf("\n\n", searched)) >= 0; searched = 0) {
        const fields = { event: "", data: "", retry: false };
        for (const line of text.slice(0, end).split("\n")) {
          const colon = line.indexOf(": ");
          if (colon > 0) fields[line.slice(0, colon)] = line.slice(colon + 2);
        }
        text = text.slice(end + 2);
        if (!fields.retry) yield fields;
      }
      searched = Math.max(text.length - 1, 0);
      if (text.length > MOST_CHARS)
        throw new HoldfastError({ code: "too_large", detail: "an event is larger than a page takes" });
    }
  } finally {
    await reader.cancel().catch(() => {});
  }
}

/**
 * Signs of a broken connection: silence, the browser's network events, and a page that becomes visible again after its machine
 * slept.
 */
class Hints extends EventTarget {
  #timer = null;
  #open = null;
  #last = 0;
  #stop = new AbortController();

  constructor() {
    super();
    const { signal } = this.#stop;
    globalThis.addEventListener?.("online", () => this.#look(0), { signal });
    document.addEventListener("visibilitychange", () => document.visibilityState === "visible" && this.#look(SILENT_MS / 2), {
      signal,
    });
  }

  /** The abort signal of a new try; it fires after too long a silence. */
  opened(signal) {
    this.#open = new AbortController();
    this.heard();
    return signal ? AbortSignal.any([signal, this.#open.signal]) : this.#open.signal;
  }

  heard() {
    this.#last = Date.now();
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#open?.abort(), SILENT_MS);
  }

  close() {
    clearTimeout(this.#timer);
    this.#open?.abort();
    this.#open = null;
  }

  end() {
    this.close();
    this.#stop.abort();
  }

  /** Try again at once, and drop a stream that has been silent for this long. */
  #look(silentMs) {
    this.dispatchEvent(new Event("hint"));
    if (this.#open !== null && Date.now() - this.#last > silentMs) this.#open.abort();
  }
}
