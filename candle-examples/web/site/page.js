// The page's user interface. The package in pkg/ runs the model in a worker.
import { load as loadModel } from "./pkg/index.js";
import { script } from "./pkg/lib/trusted.js";
import { at } from "./dom.js";
import { rows } from "./facts.js";
import { bytes, problem } from "./gpu.js";
import { judge } from "./memory.js";
import * as models from "./models.js";
import * as talk from "./conversation.js";

const address = new URLSearchParams(location.search);
const OPTIONS = ["temperature", "tokens", "seed"];
let model = null;
let loading = null;
let state = "empty";
// A message shown for as long as the page is open.
let standing = null;

const device = () => document.querySelector("input[name=device]:checked").value;

// empty -> loading -> ready <-> busy. Only `state` decides which controls are enabled.
function become(next) {
  const focus = document.activeElement;
  state = next;
  document.body.dataset.state = next;
  const [ready, busy] = [next === "ready", next === "busy"];
  at("load").disabled = !models.choice() || busy;
  at("prompt").disabled = !(ready || busy);
  at("go").disabled = !ready;
  at("stop").disabled = !busy;
  at("new").disabled = busy;
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

function progress({ text, got, total }) {
  at("progress-text").textContent = got ? `${text}: ${bytes(got)}${total ? ` of ${bytes(total)}` : ""}` : text;
  if (total) at("progress").value = got / total;
  else at("progress").removeAttribute("value");
}

// Asks before a model is loaded that may not fit.
async function check(facts, adapter) {
  const ram = navigator.deviceMemory && navigator.deviceMemory * 2 ** 30;
  const { verdict, text } = judge(facts, adapter, ram);
  at("memory").hidden = false;
  at("memory").textContent = text;
  if (verdict === "no") throw new Error(`This model does not fit. ${text}`);
  if (verdict === "fits") return true;
  at("question-text").textContent = `This model may not fit. ${text}`;
  at("question").hidden = false;
  at("refuse").focus();
  const answer = await new Promise((resolve) => {
    at("proceed").onclick = () => resolve(true);
    at("refuse").onclick = () => resolve(false);
    loading.signal.addEventListener("abort", () => resolve(false));
  });
  at("question").hidden = true;
  return answer;
}

async function load() {
  const chosen = models.choice();
  if (!chosen) return;
  loading?.abort();
  model?.close();
  model = null;
  const abort = new AbortController();
  loading = abort;
  notice(null);
  at("memory").hidden = true;
  at("speed").textContent = "";
  become("loading");
  progress({ text: "Starting" });
  // So that the browser does not delete models by itself.
  navigator.storage?.persist?.();
  try {
    const options = { device: device(), name: chosen.name, onProgress: progress, check, signal: abort.signal };
    model = await loadModel(chosen.source, options);
  } catch (error) {
    if (loading !== abort) return;
    if (error.name !== "AbortError") notice(error.message);
    become("empty");
  }
  await models.refresh();
  if (loading !== abort || !model) return;
  if (model.key) models.choose(model.key);
  at("device").textContent = model.adapter ? `WebGPU, ${model.adapter.name}` : "CPU";
  at("facts").replaceChildren(...rows(model));
  at("speed").textContent = `loaded in ${(model.ms / 1e3).toFixed(1)} s`;
  if (model.notKept) notice(`The model is not kept in this browser: ${model.notKept}.`);
  await talk.suit(model.facts.kind);
  become("ready");
  at("prompt").focus();
}

async function ask(turn) {
  if (state === "empty") notice("Load a model first.");
  if (state !== "ready" || (turn === undefined && !at("prompt").value.trim())) return;
  notice(null);
  for (const id of OPTIONS) localStorage.setItem(`candle-${id}`, at(id).value);
  become("busy");
  const asked = model;
  try {
    await talk.ask(model, turn);
    at("facts").replaceChildren(...rows(model));
  } catch (error) {
    // Another model is being loaded.
    if (model !== asked) return;
    notice(error.message);
    if (error.message.includes("Load a model again")) return become("empty");
  }
  if (model === asked) become("ready");
}

function opened(message) {
  if (message) return notice(message);
  at("side").classList.remove("open");
  return load();
}

function wire() {
  const submit = (id, act) => at(id).addEventListener("submit", (event) => { event.preventDefault(); act(); });
  const click = (id, act) => at(id).addEventListener("click", act);
  submit("choice", load);
  submit("ask", () => ask());
  submit("from-url", () => opened(models.openUrl(at("url").value)));
  click("stop", () => talk.stop());
  click("new", () => talk.begin());
  click("cancel", () => loading?.abort());
  click("menu", () => {
    const open = at("side").classList.toggle("open");
    at("menu").setAttribute("aria-expanded", open);
  });
  at("prompt").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      ask();
    }
  });
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && state === "busy") at("stop").click(); });
  at("model").addEventListener("change", () => { at("prompt").value ||= models.choice()?.prompt ?? ""; });
  at("files").addEventListener("change", () => {
    const message = models.openFiles(at("files").files);
    // So that the same file can be chosen again.
    at("files").value = "";
    opened(message);
  });
  document.addEventListener("dragover", (event) => event.preventDefault());
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    if (event.dataTransfer?.files.length && state !== "busy") opened(models.openFiles(event.dataTransfer.files));
  });
  // Switching the device reloads the model, so that both can be compared.
  for (const radio of document.querySelectorAll("input[name=device]")) {
    radio.addEventListener("change", () => { if (state !== "empty") load(); });
  }
}

async function begin() {
  become("empty");
  wire();
  for (const id of OPTIONS) at(id).value = localStorage.getItem(`candle-${id}`) ?? at(id).value;
  const why = await problem();
  if (why) {
    standing = `${why} The model runs on the CPU instead, more slowly.`;
    document.querySelector("input[value=webgpu]").disabled = true;
  }
  if (why || address.get("device") === "cpu") document.querySelector("input[value=cpu]").checked = true;
  notice(await models.begin());
  models.choose(address.get("model"));
  at("prompt").value = models.choice()?.prompt ?? "";
  await talk.restore({ ask, state: () => state });
  become("empty");
  navigator.serviceWorker?.register(script("sw.js")).catch(() => {});
  // Where models were kept before they moved to the browser's file system.
  globalThis.caches?.delete("candle-models");
}

begin();
