/** The page of the chat: one conversation, shown by elements, with a tool that this page carries out. */
import { connect } from "/agents/static/holdfast.js";

/** A token for this visitor's conversation, from the application's own back end. */
async function lent() {
  const response = await fetch("/token", { method: "POST" });
  if (!response.ok) throw new Error(`the back end answered ${response.status}`);
  return response.json();
}

const first = await lent();
let given = first;
const token = async () => {
  const found = given ?? (await lent());
  given = null; // the next time it is asked for another
  return found;
};
const conversation = connect({ url: "/agents", token }).conversation(first.conversation_id);

conversation.attach({
  cart: () =>
    Array.from(document.querySelectorAll("#cart li"), ({ dataset }) => ({
      item: dataset.item,
      quantity: Number(dataset.quantity),
    })),
});
for (const name of ["messages", "running", "elicitation", "approval"]) {
  document.querySelector(`holdfast-${name}`).conversation = conversation;
}

const form = document.querySelector("#say");
form.addEventListener("submit", async (event) => {
  event.preventDefault();
  const { value } = form.elements.text;
  form.elements.text.value = "";
  try {
    await conversation.send(value);
  } catch (error) {
    form.elements.text.value ||= value;
    document.querySelector("#problem").textContent = error.message;
  }
});
