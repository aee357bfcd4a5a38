// The page's user interface. The worker runs the model.
import { bytes, problem } from "./gpu.js";

const at = (id) => document.getElementById(id);
const address = new URLSearchParams(location.search);
let worker = null;
let models = [];
let answer = null;
let state = "empty";
// A message shown for as long as the page is open.
let standing = null;

const model = () => models.find((m) => m.id === at("model").value);
const device = () => document.querySelector("input[name=device]:checked").value;
const number = (id) => Number(at(id).value);

// empty -> loading -> ready <-> busy. Only `state` decides which controls are enabled.
function become(next) {
  const focus = document.activeElement;
  state = next;
  document.body.dataset.state = next;
  const [ready, busy] = [next === "ready", next === "busy"];
  at("load").disabled = !models.length;
  at("prompt").disabled = !(ready || busy);
  at("go").disabled = !ready;
  at("clear").disabled = !ready;
  at("stop").disabled = !busy;
  at("loading").hidden = next !== "loading";
  at("text").setAttribute("aria-busy", busy);
  // Moves the focus from a disabled button to its counterpart.
  if (busy && focus === at("go")) at("stop").focus();
  if (ready && focus === at("stop")) at("go").focus();
}

function notice(message) {
  const text = message ?? standing;
  at("notice").hidden = !text;
  at("notice").textContent = text ?? "";
}

function facts(adapter) {
  const rows = adapter ? {
    Adapter: adapter.name,
    Kind: adapter.kind,
    Features: adapter.features.join(", ") || "none (only core WebGPU)",
    Subgroups: adapter.subgroup ? adapter.subgroup.join(" to ") : "no",
    "Largest buffer": bytes(Number(adapter.max_buffer_size)),
    "Largest binding": bytes(Number(adapter.max_storage_buffer_binding_size)),
    "Storage buffers": adapter.max_storage_buffers,
    "Workgroup memory": `${adapter.max_workgroup_storage / 1024} KiB`,
    "Memory held": bytes(Number(adapter.allocated_bytes)),
  } : { CPU: "WebAssembly with 128-bit SIMD, one thread" };
  at("device").textContent = adapter ? `WebGPU, ${adapter.name}` : "CPU";
  at("facts").replaceChildren(...Object.entries(rows).flatMap(([name, value]) => {
    const [dt, dd] = [document.createElement("dt"), document.createElement("dd")];
    dt.textContent = name;
    dd.textContent = value;
    return [dt, dd];
  }));
}

function paragraph(kind, text) {
  const span = document.createElement("span");
  span.className = kind;
  span.textContent = text;
  return span;
}

const heard = {
  progress({ text, part }) {
    at("progress-text").textContent = part
      ? `${text}: ${bytes(part.got)}${part.total ? ` of ${bytes(part.total)}` : ""}` : text;
    if (part?.total) at("progress").value = part.got / part.total;
    else at("progress").removeAttribute("value");
  },
  ready({ ms, adapter }) {
    facts(adapter);
    at("speed").textContent = `loaded in ${(ms / 1e3).toFixed(1)} s`;
    become("ready");
    at("prompt").focus();
  },
  piece({ piece, rate }) {
    answer.textContent += piece;
    if (rate) at("speed").textContent = `${rate.toFixed(1)} tok/s`;
    const box = at("text");
    box.scrollTop = box.scrollHeight;
  },
  done({ figures, adapter }) {
    const rate = figures.decode_rate;
    const first = figures.first_token_ms.toFixed(0);
    at("speed").textContent = `${figures.ids.length} tokens, ${rate ? `${rate.toFixed(1)} tok/s, ` : ""}first after ${first} ms`;
    document.body.dataset.ids = figures.ids.join(",");
    document.body.dataset.rate = rate ?? "";
    document.body.dataset.stop = figures.stop;
    facts(adapter);
    become("ready");
  },
  failed({ during, message }) {
    notice(message);
    become(during === "load" ? "empty" : "ready");
  },
};

function load() {
  worker?.terminate();
  notice(null);
  at("text").replaceChildren();
  at("speed").textContent = "";
  worker = new Worker("worker.js", { type: "module" });
  worker.onmessage = ({ data }) => heard[data.type](data);
  worker.onerror = (error) => heard.failed({ during: "load", message: `The worker failed: ${error.message}` });
  become("loading");
  heard.progress({ text: "Starting" });
  worker.postMessage({ type: "load", device: device(), model: model() });
}

function ask() {
  const text = at("prompt").value;
  if (!text.trim()) return;
  notice(null);
  const turn = document.createElement("div");
  turn.className = "turn";
  answer = paragraph("answer", "");
  const chat = model().kind === "chat";
  turn.append(paragraph("prompt", chat ? `${text}\n` : text), answer);
  if (!chat) at("text").replaceChildren();
  at("text").append(turn);
  const temperature = number("temperature");
  const wish = {
    tokens: number("tokens"), temperature, top_p: temperature > 0 ? 0.9 : null, seed: number("seed"),
  };
  become("busy");
  worker.postMessage({ type: "prompt", text, wish });
  if (chat) at("prompt").value = "";
}

at("choice").addEventListener("submit", (event) => { event.preventDefault(); load(); });
at("ask").addEventListener("submit", (event) => { event.preventDefault(); if (state === "ready") ask(); });
at("prompt").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    if (state === "ready") ask();
  }
});
document.addEventListener("keydown", (event) => { if (event.key === "Escape" && state === "busy") at("stop").click(); });
at("stop").addEventListener("click", () => worker.postMessage({ type: "stop" }));
at("clear").addEventListener("click", () => {
  at("text").replaceChildren();
  worker.postMessage({ type: "clear" });
});
at("model").addEventListener("change", () => { at("prompt").value = model().prompt; });
// Switching the device reloads the model, so that both can be compared.
for (const radio of document.querySelectorAll("input[name=device]")) {
  radio.addEventListener("change", () => { if (state !== "empty") load(); });
}

async function begin() {
  become("empty");
  const why = await problem();
  if (why) {
    standing = `${why} The model runs on the CPU instead, more slowly.`;
    notice(null);
    document.querySelector("input[value=webgpu]").disabled = true;
  }
  if (why || address.get("device") === "cpu") document.querySelector("input[value=cpu]").checked = true;
  const list = await fetch("models.json");
  if (!list.ok) {
    notice("models.json is missing next to this page: `cargo xtask web` creates it.");
    return;
  }
  models = await list.json();
  at("model").replaceChildren(...models.map((m) => new Option(`${m.name} (${bytes(m.bytes)})`, m.id)));
  if (models.some((m) => m.id === address.get("model"))) at("model").value = address.get("model");
  at("prompt").value = model()?.prompt ?? "";
  become("empty");
}

begin();
