// Draws a chat, and keeps it up to date while it grows.
import { answer } from "./chats.js";
import { at, button, element } from "./dom.js";
import { markdown } from "./markdown.js";

const figure = ({ tokens, rate, model }) => [tokens && `${tokens} tokens`, rate && `${rate.toFixed(1)} tok/s`, model].filter(Boolean).join(", ");

function fill(box, chat, text) {
  if (chat.kind === "chat") box.replaceChildren(...markdown(text));
  else box.textContent = text;
}

// `act` has edit, again and turn (to another answer), each for the index of a turn.
function tools(turn, index, act) {
  const current = answer(turn);
  const made = element("div", { className: "tools" });
  made.append(button("Edit", () => act.edit(index)), button("Regenerate", () => act.again(index)));
  if (current) made.append(button("Copy", () => navigator.clipboard.writeText(current.text)));
  if (turn.answers.length > 1) {
    made.append(button("‹", () => act.turn(index, -1), { ariaLabel: "Previous answer" }));
    made.append(element("span", { text: `${turn.shown + 1} of ${turn.answers.length}` }));
    made.append(button("›", () => act.turn(index, 1), { ariaLabel: "Next answer" }));
  }
  if (current) made.append(element("span", { text: figure(current), className: "soft" }));
  return made;
}

export function draw(chat, act) {
  const box = at("text");
  box.dataset.kind = chat.kind;
  const turns = chat.turns.map((turn, index) => {
    const shown = element("div", { className: "answer" });
    fill(shown, chat, answer(turn)?.text ?? "");
    const made = element("div", { className: "turn" }, element("div", { className: "prompt", text: turn.prompt }), shown, tools(turn, index, act));
    if (index < chat.forgotten) made.classList.add("forgotten");
    return made;
  });
  if (chat.forgotten) {
    const text = `The model no longer sees the ${chat.forgotten === 1 ? "first question" : `first ${chat.forgotten} questions`}: its context is full.`;
    turns.splice(chat.forgotten, 0, element("p", { className: "soft", text }));
  }
  box.replaceChildren(...turns);
  box.scrollTop = box.scrollHeight;
}

// Shows the growing answer of the last turn, at most once per frame.
export function follow(chat) {
  const box = at("text");
  const shown = [...box.querySelectorAll(".answer")].at(-1);
  let waiting = false;
  return () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => {
      waiting = false;
      if (!shown.isConnected) return;
      const below = box.scrollHeight - box.scrollTop - box.clientHeight < 80;
      fill(shown, chat, answer(chat.turns.at(-1)).text);
      if (below) box.scrollTop = box.scrollHeight;
    });
  };
}

export function titles(chats, current, act) {
  const line = (chat) => element("li", {},
    button(chat.title || "New chat", () => act.open(chat.id), { className: "grow", ariaCurrent: chat.id === current ? "true" : "false" }),
    button("Delete", () => act.remove(chat.id), { ariaLabel: `Delete ${chat.title}` }));
  at("chats").replaceChildren(...chats.map(line));
  if (!chats.length) at("chats").append(element("li", { text: "none yet", className: "soft" }));
}
