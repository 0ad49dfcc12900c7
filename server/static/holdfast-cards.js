/** The elements for what waits for a person: `<holdfast-approval>` and `<holdfast-elicitation>`. */
import { answer, approve, bodyOf, deny } from "./holdfast-decisions.js";
import { HoldfastElement, keep, make, moment, plain, shown, texts, write } from "./holdfast-element.js";
import { StaleCall } from "./holdfast-errors.js";
import { formOf } from "./holdfast-form.js";
import { scopeOf } from "./holdfast-scopes.js";
import { Together, count, refusal } from "./holdfast-together.js";

const MOST_SETTLED = 20;

/** One call that waits, then how it was settled. */
export class Card {
  #host;
  #sending = false;
  #together = new Together();
  #voted = null;
  #needed = 0;
  #error = make("p", { class: "error", role: "alert", hidden: true });
  #outcome = make("p", { class: "outcome", role: "status", tabIndex: -1 });

  constructor(host, call) {
    this.#host = host;
    this.call = call;
    this.settled = null;
    const title = make("span", { class: "tool", id: `tool-${call.suspension_id}` }, plain(call.tool));
    const due = call.expires_at && make("time", { class: "deadline" }, `${texts.due} ${moment(call.expires_at)}`);
    const { prompt, rest } = asked(call);
    this.form = make("form", { noValidate: true });
    this.controls = make("fieldset", {}, this.form);
    this.node = make(
      "div",
      { class: "card", role: "group", "aria-labelledby": title.id },
      make("div", { class: "head" }, title, due),
    );
    if (call.title) this.node.append(make("p", { class: "title", dir: "auto" }, plain(call.title)));
    if (prompt) this.node.append(make("p", { class: "prompt", dir: "auto" }, plain(prompt)));
    if (call.rule || call.rule_reason) this.node.append(make("p", { class: "ruled", dir: "auto" }, plain(ruled(call))));
    this.node.append(...this.more(call, host));
    if (rest)
      this.node.append(
        make("pre", { class: "arguments", tabIndex: 0, role: "region", "aria-label": texts.arguments }, shown(call.arguments)),
      );
    if (call.problem) this.node.append(make("p", { class: "error" }, plain(call.problem)));
    this.node.append(this.#together.node, this.controls, this.#error, this.#outcome);
    this.update(call);
  }

  /** Show what those who may decide the call have said since it was drawn. */
  update(call) {
    this.#together.show(call);
    if (this.#voted === null || this.settled !== null || this.#sending) return;
    this.#voted = Math.max(this.#voted, call.votes?.length ?? 0);
    write(this.#outcome, `${count(this.#voted, this.#needed)}, ${texts.youToo}`);
  }

  /** What of a call its kind shows beside its arguments. */
  more() {
    return [];
  }

  /** Whether a part of the form says what is wrong with a decision. */
  blamed() {
    return false;
  }

  /** Whether a call takes a decision; a server that does not say so takes all of its kind. */
  takes(name) {
    return !Array.isArray(this.call.decisions) || this.call.decisions.includes(name);
  }

  /** Say that this page does not decide it. */
  wait() {
    this.controls.replaceChildren(make("p", { class: "hint" }, texts.elsewhere));
  }

  button(name, text, { main = false, type = "button", click } = {}) {
    const found = make("button", { class: `button ${name}${main ? " main" : ""}`, type }, text);
    if (click) found.addEventListener("click", click);
    return found;
  }

  /** Send a decision, once: until it is known what became of it, no other is sent. */
  async decide(decision) {
    if (this.#sending || this.settled !== null) return;
    const focused = this.node.getRootNode().activeElement;
    const inside = this.node.contains(focused);
    write(this.#outcome, texts.sending);
    if (inside) this.#outcome.focus(); // what is disabled loses it
    this.#sending = this.controls.disabled = true;
    this.#error.hidden = true;
    try {
      const receipt = await this.#host.conversation.resolve(this.call, decision);
      this.#host.tell("resolved", { call: this.call, decision, receipt });
      if (receipt.settled === false) this.#agreed(receipt);
      else this.settle({ by: decision.decision, at: receipt.accepted_at, mine: true, body: bodyOf(decision) });
    } catch (error) {
      if (error instanceof StaleCall) {
        this.settle({ by: error.settledBy ?? error.reason, at: error.settledAt });
      } else {
        write(this.#outcome, "");
        this.controls.disabled = false;
        if (inside) focused.focus();
        if (!this.blamed(error)) {
          this.#error.textContent = refusal(error) ?? error.message;
          this.#error.hidden = false;
        }
      }
      this.#host.tell("error", { call: this.call, decision, error });
    } finally {
      this.#sending = false;
    }
  }

  /** Say that a decision was one of several that it takes: the call still waits, and a no of anybody settles it. */
  #agreed({ votes, needed }) {
    this.#voted = votes;
    this.#needed = needed;
    this.controls.disabled = false;
    write(this.#outcome, `${count(votes, needed)}, ${texts.youToo}`);
  }

  /** Say how it was settled, in the place of what could be done. */
  settle(settled) {
    const { by, at, mine, principal, body, reason } = settled;
    const who = mine ? texts.you : principal?.id ? `${texts.by} ${plain(principal.id).slice(0, 200)}` : "";
    const { verdict, notes } = by === "review" ? reviewIn(body) : {};
    const why = by === "deny" || by === "fail" ? reasonIn(body) : plain(notes ?? reason ?? "").slice(0, 500);
    const said = [texts.verdicts[verdict] ?? texts.settled[by] ?? texts.over, who, at ? `· ${moment(at)}` : "", why && `· ${why}`]
      .filter(Boolean)
      .join(" ");
    if (this.settled === null) {
      const focused = this.node.contains(this.node.getRootNode().activeElement);
      this.node.style.minHeight = `${this.node.offsetHeight}px`; // the cards below stay where they are
      this.controls.remove();
      this.#error.hidden = true;
      this.node.classList.add("settled");
      this.node.setAttribute("part", "card settled");
      this.node.querySelector(".head").append(this.button("dismiss", texts.dismiss, { click: () => this.#host.dismiss(this) }));
      write(this.#outcome, said);
      if (focused) this.#outcome.focus();
    } else if (principal || !this.settled.mine) write(this.#outcome, said);
    this.settled = { ...this.settled, ...settled };
  }
}

/** The cards of one kind of suspension. */
export class Cards extends HoldfastElement {
  #cards = new Map();
  #nodes = new Map();
  #list = make("div", { class: "list" });

  constructor() {
    super();
    this.shadowRoot.append(this.#list);
  }

  reset() {
    this.#cards.clear();
    this.#nodes.clear();
    this.#list.replaceChildren();
  }

  dismiss(card) {
    this.#cards.delete(card.call.suspension_id);
    this.#show();
  }

  draw({ state, settled }) {
    const open = (state?.pending ?? []).filter((call) => call.kind === this.constructor.kind);
    for (const call of open) {
      const card = this.#cards.get(call.suspension_id);
      if (card) card.update(call);
      else this.#cards.set(call.suspension_id, new this.constructor.Card(this, call));
    }
    const waiting = new Set(open.map((call) => call.suspension_id));
    for (const [suspension, card] of this.#cards) {
      if (settled.has(suspension)) card.settle(settled.get(suspension));
      else if (state !== null && !waiting.has(suspension) && card.settled === null) this.#cards.delete(suspension);
    }
    this.#show();
    return this.#cards.size ? null : texts.nothingWaits;
  }

  #show() {
    const over = [...this.#cards.values()].filter((card) => card.settled !== null);
    for (const card of over.slice(0, -MOST_SETTLED)) this.#cards.delete(card.call.suspension_id);
    const cards = [...this.#cards.values()];
    keep(
      this.#list,
      this.#nodes,
      cards,
      (card) => card.call.suspension_id,
      (card) => card.node,
      () => {},
    );
  }
}

class ApprovalCard extends Card {
  #scope = null;

  constructor(host, call) {
    super(host, call);
    const reason = make("textarea", {
      class: "reason",
      rows: 2,
      id: `reason-${call.suspension_id}`,
      maxLength: 1000,
      dir: "auto",
    });
    const asking = make("div", { class: "field", hidden: true }, make("label", { htmlFor: reason.id }, texts.reason), reason);
    const yes = this.button("approve", texts.approve, { main: true, click: () => this.decide(approve()) });
    const no = this.button("deny", texts.deny, {
      click: () => {
        if (asking.hidden) turn(true);
        else this.decide(deny(reason.value.trim()));
      },
    });
    yes.disabled = Boolean(call.problem); // what nobody has seen is not let through
    const back = this.button("back", texts.back, { click: () => turn(false) });
    back.hidden = true;
    const turn = (denying) => {
      asking.hidden = back.hidden = !denying;
      yes.hidden = denying;
      (denying ? reason : no).focus();
    };
    this.form.addEventListener("submit", (event) => event.preventDefault());
    this.form.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !asking.hidden) turn(false);
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !asking.hidden) this.decide(deny(reason.value.trim()));
    });
    const offered = [this.takes("approve") && yes, this.takes("deny") && no].filter(Boolean);
    if (!offered.length) {
      this.wait();
      return;
    }
    this.form.append(asking, make("div", { class: "actions" }, ...offered, back));
    const { minimum, not_requester: others, each } = call.approvers ?? { minimum: 1 };
    const grantable = minimum === 1 && !others && !each; // else each call is decided
    if (this.takes("approve") && !call.problem && grantable && host.conversation.grantsAllowed()) {
      this.#scope = scopeOf(call, (scope) => this.decide(approve(undefined, { scope })));
      this.controls.append(this.#scope.node);
    }
  }

  blamed(error) {
    return this.#scope !== null && this.#scope.blamed(error);
  }
}

class ElicitationCard extends Card {
  #blame;

  constructor(host, call) {
    super(host, call);
    if (!this.takes("answer") && !this.takes("deny")) {
      this.wait();
      return;
    }
    const order = call.questions?.map(({ id }) => id);
    const { node, read, blame } = formOf(call.response_schema, order ? texts.answers : texts.answer, order);
    this.#blame = blame;
    const no = this.button("deny", texts.decline, { click: () => this.decide(deny()) });
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      const { ok, value } = read();
      if (ok) this.decide(answer(value));
    });
    this.form.append(
      node,
      make("div", { class: "actions" }, this.button("send", texts.send, { main: true, type: "submit" }), no),
    );
  }

  blamed({ fields }) {
    const [, name] = /^decision\.value\.(.+)$/s.exec(fields?.field ?? "") ?? [];
    return name !== undefined && this.#blame(name, `${fields.problem}: ${fields.fix}`);
  }
}

/** `<holdfast-approval>`: what waits for a yes or no before it runs. */
export class ApprovalElement extends Cards {
  static kind = "approval";
  static Card = ApprovalCard;
}

/** `<holdfast-elicitation>`: what waits for a person's answer, with a form for it. */
export class ElicitationElement extends Cards {
  static kind = "elicitation";
  static Card = ElicitationCard;
}

/** What permission rules say of a call: the rule that asks, and why. */
function ruled({ rule, rule_reason: reason }) {
  if (!rule) return `${texts.because} ${reason}`;
  return `${texts.ruled} ${rule}${reason ? `: ${reason}` : ""}`;
}

/** What a call asks, and whether its arguments say more than that. */
function asked({ prompt, arguments: given, kind, questions }) {
  if (questions) return { prompt, rest: false };
  const values = Object.values(given ?? {});
  const question = kind === "elicitation" && values.length === 1 && typeof values[0] === "string" ? values[0] : null;
  const rest = values.length > 0 && (question === null || (prompt !== null && prompt !== question));
  return { prompt: prompt ?? question, rest };
}

function reasonIn(body) {
  try {
    const said = JSON.parse(body ?? '""');
    return typeof said === "string" ? plain(said).slice(0, 500) : "";
  } catch {
    return "";
  }
}

/** The verdict and the notes of a review, as the log has them. */
function reviewIn(body) {
  try {
    const { verdict, notes } = JSON.parse(body ?? "{}");
    return { verdict: Object.hasOwn(texts.verdicts, verdict) ? verdict : undefined, notes: typeof notes === "string" ? notes : "" };
  } catch {
    return {};
  }
}
