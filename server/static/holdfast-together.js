/** What a card says of those who decide a call together: who may, who has agreed, who has taken it on, what they wrote. */
import { make, moment, plain, texts } from "./holdfast-element.js";
import { written } from "./holdfast-json.js";

const LONGEST_LINE = 200;

/** Who may decide a call, votes, who is on it and comments; hidden where there is nothing to say. */
export class Together {
  #said = "";
  node = make("div", { class: "together", hidden: true });

  /** Draw what a call says now, if it says something else. */
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

/** How many have agreed, as a line says it. */
export const count = (votes, needed) => `${votes} ${texts.of} ${needed} ${texts.agreed}`;

/** What the server says against whoever has decided, in plain words; null where it is about something else. */
export function refusal({ code, fields }) {
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
