// A page of one conversation, and notifications.
import { $, $$, fill, list, part, put, signedOut } from "./pages-page.js";

// An open conversation: its parts are fetched anew when they change, and the model's text is shown as it comes.
const now = $("#now");
let renewing = false, again = false;
async function renew() {
  if (renewing) { again = true; return; }
  renewing = true;
  const began = performance.now();
  try {
    const { response, text } = await part(now.dataset.path);
    if (response.type === "opaqueredirect" || response.status === 401) return signedOut();
    if (!response.ok) return;
    const kept = $$("[id]", now).filter((one) => one.scrollTop).map((one) => [one.id, one.scrollTop]);
    const held = document.activeElement?.id;
    fill(now, text);
    for (const [id, top] of kept) { const one = document.getElementById(id); if (one) one.scrollTop = top; }
    if (held && document.activeElement === document.body) document.getElementById(held)?.focus();
  } catch {
    again = true;
  } finally {
    const took = performance.now() - began; // a page that takes long is fetched less often
    setTimeout(() => { renewing = false; if (again) { again = false; renew(); } }, Math.max(300, 3 * took));
  }
}
document.addEventListener("htmx:sseBeforeMessage", (event) => {
  if (!now || !["changed", "said"].includes(event.detail.type)) return;
  event.preventDefault();
  if (event.detail.type === "changed") return void renew();
  const live = $("#live");
  if (live) live.textContent = (live.textContent + JSON.parse(event.detail.data).text).slice(-20000);
});

export function follow() { // open a conversation's stream again after it was given up
  const feed = $("#feed");
  if (!feed) return true;
  const fresh = feed.cloneNode(true);
  feed.replaceWith(fresh);
  htmx.process(fresh);
  renew();
  return true;
}

// Notifications, once they are allowed.
const notify = $("#notify");
if (notify && list() && "Notification" in window && Notification.permission !== "denied") {
  const says = () => put(notify, Notification.permission === "granted" && localStorage.getItem("holdfast-notify") === "on" ? "Notifications are on" : "Notify me");
  notify.hidden = false;
  notify.addEventListener("click", async () => {
    const was = localStorage.getItem("holdfast-notify") === "on" && Notification.permission === "granted";
    if (!was) await Notification.requestPermission();
    localStorage.setItem("holdfast-notify", was ? "off" : "on");
    says();
  });
  says();
}
