// The conversation that is shown: asks the model, and stores what is said.
import * as chats from "./chats.js";
import { Speed, chart } from "./chart.js";
import { at, element } from "./dom.js";
import { draw, follow, titles } from "./talk.js";

// An answer is stored this often while it grows.
const SAVED = 1000;
const TITLE = 60;

let chat = chats.fresh("text");
let page = null;
let generation = null;
let stopped = false;

const number = (id) => Number(at(id).value);

async function list() {
  titles(await chats.all(), chat.id, { open, remove });
}

async function save() {
  chat.changed = Date.now();
  await chats.put(chat);
}

function show() {
  at("system").value = chat.system;
  at("system-label").hidden = chat.kind !== "chat";
  draw(chat, { edit, again, turn });
  at("chart").replaceChildren(chart(chats.answer(chat.turns.at(-1) ?? { answers: [] })?.rates ?? []));
}

export async function begin(kind = chat.kind) {
  if (page.state() === "busy") return;
  chat = chats.fresh(kind, at("system").value);
  show();
  await list();
  at("prompt").focus();
}

async function open(id) {
  if (page.state() === "busy") return;
  chat = (await chats.all()).find((one) => one.id === id) ?? chat;
  at("side").classList.remove("open");
  show();
  await list();
}

async function remove(id) {
  if (page.state() === "busy") return;
  await chats.remove(id);
  if (id === chat.id) return begin();
  return list();
}

// Shows the latest conversation. `callbacks` are the page's.
export async function restore(callbacks) {
  page = callbacks;
  try {
    chat = (await chats.all())[0] ?? chat;
    await list();
  } catch (error) {
    at("chats").replaceChildren(element("li", { text: `Chats are not kept: ${error.message}`, className: "soft" }));
  }
  show();
}

// A model of another kind cannot continue this chat.
export async function suit(kind) {
  if (kind === chat.kind) return;
  if (chat.turns.length) await begin(kind);
  chat.kind = kind;
  show();
}

export function stop() {
  stopped = true;
  generation?.return();
}

// Chats lose nothing: what follows an edited or regenerated turn stays in the original.
function divide(index) {
  if (index < chat.turns.length - 1) chat = chats.branch(chat, index + 1);
}

function edit(index) {
  if (page.state() === "busy") return;
  const { prompt } = chat.turns[index];
  chat = chats.branch(chat, index);
  if (!index) chat.title = "";
  show();
  at("prompt").value = prompt;
  at("prompt").focus();
}

function again(index) {
  if (page.state() === "busy") return;
  if (page.state() === "ready") divide(index);
  page.ask(index);
}

async function turn(index, by) {
  if (page.state() === "busy") return;
  const one = chat.turns[index];
  one.shown = (one.shown + by + one.answers.length) % one.answers.length;
  await save();
  show();
}

async function compare(model, text) {
  const lines = text.split("\n").filter((line) => line.trim());
  const rows = await model.embed(lines);
  const cosine = (a, b) => a.reduce((sum, value, i) => sum + value * b[i], 0);
  const line = (a, i) => rows.slice(i + 1).map((b, j) => `${cosine(a, b).toFixed(3)}  ${lines[i]} / ${lines[i + 1 + j]}`);
  return rows.flatMap(line).join("\n") || "Give two lines or more: the cosines between them are shown.";
}

// Answers the text in the prompt, or answers the turn `index` again.
export async function ask(model, index) {
  const chatty = model.facts.kind === "chat";
  [generation, stopped] = [null, false];
  if (index === undefined) {
    const text = at("prompt").value;
    // Each text stands alone: a text model sees only the latest.
    chat.turns.push({ prompt: text, answers: [], shown: 0 });
    chat.title ||= text.trim().slice(0, TITLE);
    if (chatty) at("prompt").value = "";
  }
  chat.kind = model.facts.kind;
  chat.system = at("system").value;
  const last = chat.turns.at(-1);
  const seed = number("seed") + last.answers.length;
  const reply = { text: "", model: model.facts.name ?? model.name, tokens: 0, rate: null, rates: [], stop: null };
  last.answers.push(reply);
  last.shown = last.answers.length - 1;
  await save().catch(() => {});
  await list().catch(() => {});
  show();
  at("text").setAttribute("aria-busy", "true");
  try {
    if (model.facts.kind === "embed") reply.text = await compare(model, last.prompt);
    else await generate(model, reply, seed);
  } catch (error) {
    last.answers = last.answers.filter((one) => one !== reply || one.text);
    last.shown = Math.max(last.answers.length - 1, 0);
    throw error;
  } finally {
    await save().catch(() => {});
    show();
  }
}

async function generate(model, reply, seed) {
  const temperature = number("temperature");
  const options = { maxTokens: number("tokens"), temperature, topP: temperature > 0 ? 0.9 : undefined, seed };
  const redraw = follow(chat);
  const speed = new Speed();
  let saved = performance.now();
  generation = model.generate(chats.messages(chat), options);
  if (stopped) generation.return();
  for await (const piece of generation) {
    reply.text += piece;
    speed.add(generation.count);
    reply.rates = speed.rates;
    const rate = speed.rates.at(-1)?.[1];
    if (rate) at("speed").textContent = `${rate.toFixed(1)} tok/s`;
    if (at("speeds").open) at("chart").replaceChildren(chart(speed.rates));
    redraw();
    if (performance.now() - saved > SAVED) {
      saved = performance.now();
      save().catch(() => {});
    }
  }
  const figures = await generation.figures;
  const rate = figures.decode_rate;
  Object.assign(reply, { tokens: figures.ids.length, rate, stop: figures.stop, prompt: figures.prompt.length });
  chat.forgotten += figures.forgotten;
  const first = figures.first_token_ms.toFixed(0);
  at("speed").textContent = `${figures.ids.length} tokens, ${rate ? `${rate.toFixed(1)} tok/s, ` : ""}first after ${first} ms`;
  Object.assign(document.body.dataset, { ids: figures.ids.join(","), rate: rate ?? "", stop: figures.stop, prompt: figures.prompt.length });
}
