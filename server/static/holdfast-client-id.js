/** The id of this page as a client that runs calls: one for each tab, the same after a reload. */
import { newId } from "./holdfast-wire.js";

const KEY = "holdfast.client";
const RELOAD_MS = 1_000; // for how long the page before a reload may still hold its lock

let asked = null;

/**
 * This page's id. A duplicated tab, which begins with a copy of the other's storage, gets one of its own; where a page has no Web
 * Locks (without TLS) or no storage (in a sandboxed frame), each load does.
 */
export function pageId() {
  return (asked ??= known().catch(named));
}

async function known() {
  const stored = sessionStorage.getItem(KEY) ?? "";
  if (/^tab-[0-9a-f]{32}$/.test(stored) && (await locked(stored))) return stored;
  const id = named();
  if (await locked(id)) sessionStorage.setItem(KEY, id);
  return id;
}

/** Whether this page holds the lock of an id from now on, for as long as it lives. */
function locked(id) {
  return new Promise((resolve) => {
    const held = () => {
      resolve(true);
      return new Promise(() => {});
    };
    navigator.locks.request(`${KEY}.${id}`, { signal: AbortSignal.timeout(RELOAD_MS) }, held).catch(() => resolve(false));
  });
}

const named = () => `tab-${newId()}`;
