/** The elements for calls that wait for a person: `<holdfast-approval>`, `<holdfast-elicitation>`, `<holdfast-review>`, `<holdfast-limit>`. */
import { HoldfastElement, built, make, moment, plain, shown, texts, write } from "./holdfast-element.js";
import { StaleCall } from "./holdfast-errors.js";
import { bodyOf } from "./holdfast-feed.js";
import { written } from "./holdfast-json.js";

const MOST_SETTLED = 20;
const LONGEST_LINE = 200;

/** One pending call, with the form that the server draws for it; later, how it was settled. */
class Card {
  #host;
  #sending = false;
  #together = new Together();
  #voted = null;
  #needed = 0;
  #denial = null;
  #stop = new AbortController();
  #controls = make("fieldset", { class: "controls" });
  #error = make("p", { class: "error", role: "alert", hidden: true });
  #outcome = make("p", { class: "outcome", role: "status", tabIndex: -1 });

  constructor(host, call) {
    this.#host = host;
    this.call = call;
    this.key = call.suspension_id;
    this.settled = null;
    const title = make("span", { class: "tool", id: `tool-${this.key}` }, plain(call.tool));
    const due = call.expires_at && make("time", { class: "deadline" }, `${texts.due} ${moment(call.expires_at)}`);
    this.node = make(
      "div",
      { class: "card", role: "group", "aria-labelledby": title.id },
      make("div", { class: "head" }, title, due),
      ...this.#asked(call),
      this.#together.node,
      this.#controls,
      this.#error,
      this.#outcome,
    );
    this.#controls.addEventListener("submit", (event) => {
      event.preventDefault();
      if (event.target === this.#denial?.form && !this.#denial.open) this.#denial.turn(true);
      else this.#send(event.target, event.submitter);
    });
    this.update(call);
    this.#draw();
  }

  /** The parts that calls of all kinds have. */
  #asked(call) {
    const { prompt, rest } = asked(call);
    const said = (name, text) => text && make("p", { class: name, dir: "auto" }, plain(text));
    const data = (name, label, value) => make("pre", { class: name, tabIndex: 0, role: "region", "aria-label": label }, shown(value));
    const report =
      call.report_md && make("div", { class: "report", dir: "auto", tabIndex: 0, role: "region", "aria-label": texts.report });
    if (report) this.#host.fill(report, plain(call.report_md), call);
    const found = [
      said("title", call.title),
      said("prompt", prompt),
      said("ruled", (call.rule || call.rule_reason) && ruled(call)),
      said("detail", call.action),
      report,
      (call.payload ?? null) !== null && data("payload", texts.payload, call.payload),
      rest && data("arguments", texts.arguments, call.arguments),
      said("error", call.problem),
    ];
    return found.filter(Boolean);
  }

  /** Insert the form. */
  async #draw() {
    if (!this.#host.conversation.decides(this.call.kind)) {
      this.#controls.append(make("p", { class: "hint" }, texts.elsewhere));
      return;
    }
    try {
      const { signal } = this.#stop;
      const { nodes } = await this.#host.conversation.form(this.call, undefined, { signal, patienceMs: Infinity });
      this.#controls.append(...this.#built(nodes));
      this.#foldDenial();
    } catch (error) {
      if (!this.#stop.signal.aborted && !(error instanceof StaleCall)) this.#wrong(error.message);
    }
  }

  #built(nodes) {
    return nodes.map((one) => built(one, `${this.key}-`));
  }

  /** Hide the reason of a denial until its button is pressed; then it replaces the other forms. */
  #foldDenial() {
    const form = this.#controls.querySelector("form[data-of=deny]");
    const asked = [...(form?.querySelectorAll("label, input") ?? [])];
    if (!asked.length) return;
    const others = [...this.#controls.children].filter((one) => one !== form);
    const back = make("button", { class: "button back", type: "button" }, texts.back);
    const turn = (open) => {
      for (const one of [...asked, back]) one.hidden = !open;
      for (const one of others) one.hidden = open;
      this.#denial.open = open;
    };
    const leave = () => {
      turn(false);
      form.querySelector("button").focus();
    };
    this.#denial = {
      form,
      turn: (open) => {
        turn(open);
        asked.at(-1).focus();
      },
    };
    form.append(back);
    turn(false);
    back.addEventListener("click", leave);
    form.addEventListener("keydown", (event) => event.key === "Escape" && this.#denial.open && leave());
  }

  /** Stop the card's requests. */
  close() {
    this.#stop.abort();
  }

  /** Show the votes and comments since the call was drawn. */
  update(call) {
    this.#together.show(call);
    if (this.#voted === null || this.settled !== null || this.#sending) return;
    this.#agreed(Math.max(this.#voted, call.votes?.length ?? 0), this.#needed);
  }

  #wrong(text) {
    this.#error.textContent = plain(text);
    this.#error.hidden = !text;
  }

  /** Send a form, once: no other is sent until the outcome of this one is known. */
  async #send(form, button) {
    if (this.#sending || this.settled !== null) return;
    const { conversation } = this.#host;
    const fields = String(new URLSearchParams(new FormData(form, button)));
    const focused = this.node.getRootNode().activeElement;
    const inside = this.node.contains(focused);
    write(this.#outcome, texts.sending);
    if (inside) this.#outcome.focus(); // disabled controls lose the focus
    this.#sending = this.#controls.disabled = true;
    this.#error.hidden = true;
    let decision = null;
    try {
      const read = await conversation.form(this.call, fields);
      decision = read.decision;
      if (decision === null) {
        this.#again(form, read);
        return;
      }
      const receipt = await conversation.resolve(this.call, decision);
      this.#host.tell("resolved", { call: this.call, decision, receipt });
      if (receipt.settled === false) {
        this.#controls.disabled = false;
        this.#agreed(receipt.votes, receipt.needed);
      }
      else this.settle({ by: decision.decision, at: receipt.accepted_at, mine: true, body: bodyOf(decision) });
    } catch (error) {
      if (error instanceof StaleCall) {
        this.settle({ by: error.settledBy ?? error.reason, at: error.settledAt });
      } else {
        write(this.#outcome, "");
        this.#controls.disabled = false;
        if (inside) focused.focus();
        this.#wrong(refusal(error) ?? error.message);
      }
      this.#host.tell("error", { call: this.call, decision, error });
    } finally {
      this.#sending = false;
    }
  }

  /** Show a form again, with its problems: beside the fields, or else below. */
  #again(form, { nodes, problem }) {
    write(this.#outcome, "");
    this.#controls.disabled = false;
    const drawn = make("div", {}, ...this.#built(nodes)).querySelector(`form[data-of="${form.dataset.of}"]`);
    if (drawn !== null) form.replaceWith(drawn);
    const wrong = drawn?.querySelector("[aria-invalid]");
    for (let folded = wrong?.closest("details"); folded; folded = folded.parentElement.closest("details")) folded.open = true;
    if (!wrong) this.#wrong(problem);
    (wrong ?? drawn?.querySelector("input, textarea, select"))?.focus();
  }

  /** Say that a vote was recorded and the call still waits: others must agree too, and one denial settles it. */
  #agreed(votes, needed) {
    this.#voted = votes;
    this.#needed = needed;
    write(this.#outcome, `${count(votes, needed)}, ${texts.youToo}`);
  }

  /** Replace the form by how the call was settled. */
  settle(settled) {
    const { by, at, mine, principal, body, reason } = settled;
    const who = mine ? texts.you : principal?.id ? `${texts.by} ${plain(principal.id).slice(0, 200)}` : "";
    const inside = by === "review" || by === "deny" || by === "fail" ? inBody(body) : reason;
    const verdict = by === "review" && Object.hasOwn(texts.verdicts, inside?.verdict) ? inside.verdict : null;
    const told = inside?.notes ?? inside;
    const why = typeof told === "string" ? plain(told).slice(0, 500) : "";
    const said = [texts.verdicts[verdict] ?? texts.settled[by] ?? texts.over, who, at ? `· ${moment(at)}` : "", why && `· ${why}`]
      .filter(Boolean)
      .join(" ");
    if (this.settled === null) {
      const focused = this.node.contains(this.node.getRootNode().activeElement);
      this.node.style.minHeight = `${this.node.offsetHeight}px`; // the cards below stay where they are
      this.#controls.remove();
      this.#error.hidden = true;
      this.close();
      this.node.classList.add("settled");
      this.node.setAttribute("part", "card settled");
      const dismiss = make("button", { class: "button dismiss", type: "button" }, texts.dismiss);
      dismiss.addEventListener("click", () => this.#host.dismiss(this));
      this.node.querySelector(".head").append(dismiss);
      write(this.#outcome, said);
      if (focused) this.#outcome.focus();
    } else if (principal || !this.settled.mine) write(this.#outcome, said);
    this.settled = { ...this.settled, ...settled };
  }
}

/** The cards of one kind of suspension. */
class Cards extends HoldfastElement {
  #cards = new Map();

  /** Insert a tool's report. */
  fill(region, text) {
    region.replaceChildren(text);
    region.classList.add("text");
  }

  reset() {
    for (const card of this.#cards.values()) card.close();
    this.#cards.clear();
    super.reset();
  }

  dismiss(card) {
    this.#cards.delete(card.key);
    this.#show();
  }

  draw({ state, settled }) {
    const open = (state?.pending ?? []).filter((call) => call.kind === this.constructor.kind);
    for (const call of open) {
      const card = this.#cards.get(call.suspension_id);
      if (card) card.update(call);
      else this.#cards.set(call.suspension_id, new Card(this, call));
    }
    const waiting = new Set(open.map((call) => call.suspension_id));
    for (const [suspension, card] of this.#cards) {
      if (settled.has(suspension)) card.settle(settled.get(suspension));
      else if (state !== null && !waiting.has(suspension) && card.settled === null) {
        card.close();
        this.#cards.delete(suspension);
      }
    }
    this.#show();
    return this.#cards.size ? null : texts.nothingWaits;
  }

  #show() {
    const over = [...this.#cards.values()].filter((card) => card.settled !== null);
    for (const card of over.slice(0, -MOST_SETTLED)) this.#cards.delete(card.key);
    this.keep([...this.#cards.values()], (card) => card.node);
  }
}

/** `<holdfast-approval>`: calls that wait for a yes or no before they run. */
export class ApprovalElement extends Cards {
  static kind = "approval";
}

/** `<holdfast-elicitation>`: questions that wait for a person's answer, each with a form. */
export class ElicitationElement extends Cards {
  static kind = "elicitation";
}

/** `<holdfast-review>`: reviews that tools ask for, with the three verdicts if this page may give them. */
export class ReviewElement extends Cards {
  static kind = "review";

  /** How a report becomes nodes, for an application that shows markdown: `(text, call) => Node | string`. */
  render = null;

  fill(region, text, call) {
    try {
      region.replaceChildren(this.render === null ? text : (this.render(text, call) ?? ""));
    } catch (error) {
      region.replaceChildren(text);
      this.tell("error", { error });
    }
    region.classList.toggle("text", region.firstChild?.nodeType === Node.TEXT_NODE);
  }
}

/** `<holdfast-limit>`: turns that have reached a bound of their agent and wait for leave to go on. */
export class LimitElement extends Cards {
  static kind = "limit";
}

/** The permission rule that asks about a call, and its reason. */
function ruled({ rule, rule_reason: reason }) {
  if (!rule) return `${texts.because} ${reason}`;
  return `${texts.ruled} ${rule}${reason ? `: ${reason}` : ""}`;
}

/** The question of a call, and whether its arguments say more than the question. */
function asked({ prompt, arguments: given, kind, questions }) {
  if (questions) return { prompt, rest: false };
  const values = Object.values(given ?? {});
  const question = kind === "elicitation" && values.length === 1 && typeof values[0] === "string" ? values[0] : null;
  const rest = values.length > 0 && (question === null || (prompt !== null && prompt !== question));
  return { prompt: prompt ?? question, rest };
}

/** The content of a decision, as the log has it: a reason, or the verdict and the notes of a review. */
function inBody(body) {
  try {
    return JSON.parse(body ?? "null");
  } catch {
    return null;
  }
}

/** A call's approvers, votes, assignee and comments; hidden if there are none. */
class Together {
  #said = "";
  node = make("div", { class: "together", hidden: true });

  /** Draw the call's current values, if they have changed. */
  show({ approvers, votes, assigned, comments }) {
    const said = written([approvers, votes, assigned, comments].map((one) => one ?? null));
    if (said === this.#said) return;
    this.#said = said;
    const lines = [
      approvers && make("p", { class: "decides", dir: "auto" }, `${texts.decides} ${plain(decides(approvers))}`),
      approvers?.minimum > 1 && make("p", { class: "votes", dir: "auto" }, agreed(votes ?? [], approvers.minimum)),
      assigned && make("p", { class: "assigned", dir: "auto" }, `${short(assigned)} ${texts.takenOn}`),
      comments?.length > 0 && make("ul", { class: "comments", "aria-label": texts.comments }, ...comments.map(comment)),
    ].filter(Boolean);
    this.node.replaceChildren(...lines);
    this.node.hidden = !lines.length;
  }
}

/** The line that says how many have agreed. */
const count = (votes, needed) => `${votes} ${texts.of} ${needed} ${texts.agreed}`;

/** The server's objection to the person who decides, in plain words; null for any other error. */
function refusal({ code, fields }) {
  if (code === "already_voted") return `${texts.votedAlready} ${count(Number(fields.votes), Number(fields.needed))}.`;
  if (code === "not_permitted" && fields.why) return `${texts.notPermitted}: ${plain(fields.why)}`;
  return null;
}

const short = (text) => plain(text).slice(0, LONGEST_LINE);

function agreed(votes, needed) {
  const who = votes.map(({ by }) => short(by.id)).join(", ");
  return `${count(votes.length, needed)}${who && `: ${who}`}`;
}

function comment({ by, at, text }) {
  return make("li", { class: "comment", dir: "auto" }, `${by ? short(by.id) : texts.somebody}, ${moment(at)}: ${plain(text)}`);
}

function decides({ who, minimum, not_requester: notRequester }) {
  const groups = (who ?? []).map((names) => names.join(", ").slice(0, LONGEST_LINE)).join(` ${texts.andOf} `);
  const people = minimum > 1 ? `${minimum} ${texts.of} ` : "";
  return `${people}${groups || texts.anybody}${notRequester ? `, ${texts.notAsker}` : ""}`;
}
