/**
 * Holdfast in a page: a client of a conversation, handlers for the client's tools, and elements for calls and messages.
 *
 *     import { connect } from "/static/holdfast.js";
 *
 *     const conversation = connect({ token: () => fetch("/token", { method: "POST" }).then((found) => found.json()) }).conversation("c-1");
 *     conversation.attach({ locate: async () => "here" });
 *     document.querySelector("holdfast-approval").conversation = conversation;
 */
import { ApprovalElement, ElicitationElement, LimitElement, ReviewElement } from "./holdfast-cards.js";
import { MessagesElement, RunningElement } from "./holdfast-messages.js";

export { attach } from "./holdfast-attach.js";
export { Client, Conversation, connect } from "./holdfast-conversation.js";
export * from "./holdfast-decisions.js";
export { texts } from "./holdfast-element.js";
export { HoldfastError, StaleCall } from "./holdfast-errors.js";
export { ApprovalElement, ElicitationElement, LimitElement, MessagesElement, ReviewElement, RunningElement };

const ELEMENTS = {
  "holdfast-approval": ApprovalElement,
  "holdfast-elicitation": ElicitationElement,
  "holdfast-limit": LimitElement,
  "holdfast-messages": MessagesElement,
  "holdfast-review": ReviewElement,
  "holdfast-running": RunningElement,
};
for (const [name, element] of Object.entries(ELEMENTS)) {
  if (!customElements.get(name)) customElements.define(name, element);
}
