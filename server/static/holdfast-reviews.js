/** The element for what a tool asks to have reviewed: `<holdfast-review>`. */
import { Card, Cards } from "./holdfast-cards.js";
import { answer, review } from "./holdfast-decisions.js";
import { make, plain, shown, texts } from "./holdfast-element.js";
import { formOf } from "./holdfast-form.js";

const MOST_NOTES = 4000;

/** One review: what is asked, the report, the data, and three verdicts. */
class ReviewCard extends Card {
  constructor(host, call) {
    super(host, call);
    if (!host.conversation.decides("review") || !(this.takes("review") || this.takes("answer"))) {
      this.wait();
      return;
    }
    this.form.addEventListener("submit", (event) => event.preventDefault());
    if (this.takes("review")) this.#verdicts(call);
    if (call.response_schema !== null && call.response_schema !== undefined && this.takes("answer")) this.#answer(call);
  }

  more({ report_md: report, payload, action }, host) {
    const found = [];
    if (action) found.push(make("p", { class: "detail", dir: "auto" }, plain(action)));
    if (report) {
      const region = make("div", { class: "report", dir: "auto", tabIndex: 0, role: "region", "aria-label": texts.report });
      host.fill(region, plain(report), this.call);
      found.push(region);
    }
    if (payload !== null && payload !== undefined) {
      found.push(
        make("pre", { class: "payload", tabIndex: 0, role: "region", "aria-label": texts.payload }, shown(payload)),
      );
    }
    return found;
  }

  #verdicts(call) {
    const id = `notes-${call.suspension_id}`;
    const notes = make("textarea", { class: "notes", rows: 2, id, maxLength: MOST_NOTES, dir: "auto" });
    const error = make("span", { class: "error", id: `${id}-error`, hidden: true }, texts.notesNeeded);
    notes.setAttribute("aria-describedby", error.id);
    const wrong = (is) => {
      error.hidden = !is;
      notes.toggleAttribute("aria-invalid", false);
      if (is) notes.setAttribute("aria-invalid", "true");
    };
    const decide = (verdict) => {
      wrong(verdict === "review" && !notes.value.trim());
      if (error.hidden) this.decide(review(verdict, notes.value.trim()));
      else notes.focus();
    };
    const buttons = [
      this.button("allow", texts.allow, { main: true, click: () => decide("allow") }),
      this.button("block", texts.block, { click: () => decide("block") }),
      this.button("send-back", texts.sendBack, { click: () => decide("review") }),
    ];
    for (const one of buttons) one.disabled = Boolean(call.problem); // nobody has seen what it is about
    this.form.append(
      make("div", { class: "field" }, make("label", { htmlFor: id }, texts.notes), notes, error),
      make("div", { class: "actions" }, ...buttons),
    );
  }

  #answer(call) {
    const { node, read } = formOf(call.response_schema, texts.answer);
    const send = () => {
      const { ok, value } = read();
      if (ok) this.decide(answer(value));
    };
    this.form.append(node, make("div", { class: "actions" }, this.button("send", texts.send, { click: send })));
  }
}

/** `<holdfast-review>`: what a tool asks to have reviewed, with the three verdicts where this page may give them. */
export class ReviewElement extends Cards {
  static kind = "review";
  static Card = ReviewCard;

  /** How a report becomes nodes, for an application that shows markdown: `(text, call) => Node | string`. */
  render = null;

  /** Put a report into its place, as the application draws it. */
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
