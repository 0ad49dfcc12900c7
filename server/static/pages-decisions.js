// Decisions in the inbox. The answer to one may come while another call is open: the row of the decided call then shows the outcome.
import { $, $$, LOST, focus, list, made, notice, parsed, part, put, signedOut, tick, unsay } from "./pages-page.js";
import { EDITED, drafts, end, go, load, note, rowOf, said, select, unanswered } from "./pages-list.js";

async function decide(form, button) {
  const { id, tool } = form.dataset;
  const block = $("#decide");
  const body = new URLSearchParams(new FormData(form, button));
  const buttons = $$("button", block);
  buttons.forEach((one) => { one.disabled = true; });
  block.setAttribute("aria-busy", "true");
  const words = button?.textContent;
  if (button) put(button, "Sending …");
  const row = rowOf(id);
  const deciding = body.get("decision") !== "compare";
  if (deciding && row) { row.classList.add("sending"); said(row, "being decided …"); }
  unsay(id);
  let found = null;
  try {
    found = await part(form.action, { method: "POST", body });
  } catch { /* said below */ }
  const here = block.isConnected;
  row?.classList.remove("sending");
  if (!deciding && !here) return; // a comparison of a call that is no longer open
  if (deciding && (found === null || found.response.status >= 500)) unanswered.set(id, body.get("decision_id")); else unanswered.delete(id);
  const holder = parsed(found?.text ?? "");
  const fresh = $("#decide", holder);
  const settled = fresh?.dataset.settled;
  if (fresh?.dataset.voted) return agreed(fresh.dataset, id, here);
  if (deciding && row && !settled && !row.classList.contains("settled")) said(row, fresh || !here ? "" : "not decided yet");
  if (fresh && here) {
    const mine = block.contains(document.activeElement) || document.activeElement === document.body;
    block.replaceWith(fresh);
    htmx.process(fresh);
    tick();
    if (settled) end(settled, fresh.dataset.says);
    const places = settled ? ["#next"] : ["#decide .wrong :is(input, textarea, select)", "#decide .difference", EDITED, "#decide [role=alert]"];
    $("#decide [role=alert]")?.setAttribute("tabindex", "-1"); // focus no button: Enter could make another decision than was meant
    if (mine) places.some(focus);
    return;
  }
  if (settled) { // another call is open by now
    end(settled, fresh.dataset.says);
    if (found.response.status === 409) notice(`${tool}: your decision was not accepted, since it was ${fresh.dataset.says} before.`, { key: id, link: back(id) });
    return;
  }
  if (row?.classList.contains("settled")) { // the list has shown the outcome meanwhile
    if (here) load($("a", row).href, id);
    return;
  }
  buttons.forEach((one) => { one.disabled = false; });
  block.removeAttribute("aria-busy");
  if (button) put(button, words);
  if (found && (found.response.type === "opaqueredirect" || found.response.status === 401)) return signedOut();
  const problem = fresh ? $(".notice", fresh)?.textContent : $("p", holder)?.textContent;
  notice(`${tool}: ${problem ?? LOST}`, { key: id, link: here ? null : back(id) });
  if (row) said(row, "not decided: look again");
}
async function agreed({ voted: path, as, says }, id, here) { // a vote: the call waits for others, perhaps with edited arguments
  const row = rowOf(as);
  if (row && !row.classList.contains("settled")) { said(row, ""); note(row, says); }
  if (as !== id && rowOf(id)) end(id, "asked anew by you, about edited arguments");
  if (!here) return void drafts.delete(id);
  for (const one of $$("#decide form")) one.reset(); // what was typed is recorded
  history.replaceState(null, "", row ? $("a", row).href : path);
  select(as);
  await load(path, as);
  const status = $("#decide [role=status]");
  status?.setAttribute("tabindex", "-1"); // no button, as above
  status?.focus();
}
function back(id) {
  const row = rowOf(id);
  if (!row) return null;
  const link = made("a", { text: "Show it", href: $("a", row).href });
  link.addEventListener("click", (event) => { event.preventDefault(); unsay(id); go($("a", row)); });
  return link;
}
document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.matches("#decide form[data-id]") && list()) {
    event.preventDefault();
    if (!$("#decide[aria-busy]")) decide(form, event.submitter);
  } else if (form.matches("form[data-once]")) { // a form that the browser itself sends is sent once
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
    setTimeout(() => delete form.dataset.sent, 10000); // if it was stopped, it may be sent again
  }
});
