import { load } from "./pkg/index.js";

const [prompt, status, answer] = ["prompt", "status", "answer"].map((id) => document.getElementById(id));
let model = null;

document.getElementById("ask").addEventListener("submit", async (event) => {
  event.preventDefault();
  const [{ weights }] = (await (await fetch("models.json")).json()).filter(({ kind }) => kind === "chat");
  model ??= await load(weights, { onProgress: ({ text }) => { status.textContent = text; } });
  answer.textContent = "";
  const reply = model.generate(prompt.value, { maxTokens: 20 });
  for await (const piece of reply) answer.textContent += piece;
  status.textContent = `${(await reply.figures).decode_rate.toFixed(1)} tok/s`;
});
