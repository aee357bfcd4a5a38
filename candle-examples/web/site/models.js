// The models that can be chosen: those that the server offers, those that the browser keeps, and opened files.
import { kept, remove } from "./pkg/index.js";
import { at, button, element } from "./dom.js";
import { bytes } from "./gpu.js";

const CHOSEN = ["gguf", "safetensors", "bin", "json", "jinja"];

// { id, name, title, source, prompt?, kept? }
let offered = [];
let stored = [];
let opened = null;

export const choice = () => [...offered, ...stored, opened].find((model) => model?.id === at("model").value);

function draw() {
  const before = at("model").value;
  const group = (label, models) => {
    const made = element("optgroup", { label });
    made.append(...models.map(({ id, title }) => new Option(title, id)));
    return models.length ? [made] : [];
  };
  const names = new Set(offered.map(({ name }) => name));
  const others = stored.filter(({ name }) => !names.has(name));
  at("model").replaceChildren(
    ...group("Offered here", offered),
    ...group("Kept in this browser", others),
    ...group("Opened", opened ? [opened] : []),
  );
  choose(before);
}

export function choose(id) {
  if ([...at("model").options].some((option) => option.value === id)) at("model").value = id;
}

const ask = (model) => element("li", {}, element("span", { text: model.title, className: "grow" }),
  button("Delete", () => drop(model.id), { ariaLabel: `Delete ${model.name}` }));

async function drop(key) {
  let failed = null;
  await remove(key).catch((error) => { failed = error; });
  await refresh();
  if (failed) at("storage").textContent = `It cannot be deleted now: ${failed.message}`;
}

// Reads the list of kept models.
export async function refresh() {
  stored = (await kept()).map(({ key, name, bytes: size, complete, source }) => ({
    id: key, name, source, kept: true, title: `${name} (${bytes(size)}${complete ? "" : ", not complete"})`,
  }));
  at("kept").replaceChildren(...stored.map(ask));
  if (!stored.length) at("kept").append(element("li", { text: "none yet", className: "soft" }));
  const { usage, quota } = await navigator.storage?.estimate?.() ?? {};
  at("storage").textContent = quota ? `${bytes(usage)} used of ${bytes(quota)} that the browser allows.` : "";
  draw();
}

// Reads the list of offered models; returns an error message.
export async function begin() {
  const list = await fetch("models.json").catch(() => null);
  const models = list?.ok ? await list.json() : [];
  offered = models.map(({ id, name, prompt, weights, tokenizer, bytes: size }) => ({
    id, name, prompt, title: `${name} (${bytes(size)})`, source: [weights, ...(tokenizer ? [tokenizer] : [])],
  }));
  await refresh();
  return models.length || stored.length ? null : "models.json is missing next to this page: `cargo xtask web` creates it.";
}

function show(source, name) {
  opened = { id: "opened", name, source, title: name };
  draw();
  at("model").value = "opened";
}

// Both return an error message if this cannot be a model.
export function openFiles(list) {
  const files = [...list];
  const usable = files.filter(({ name }) => CHOSEN.includes(name.split(".").at(-1).toLowerCase()));
  const named = usable.find(({ name }) => /\.(gguf|safetensors|bin)$/i.test(name));
  if (!named) return `${files.map(({ name }) => name).join(", ") || "Nothing"}: a model is a .gguf file, or .safetensors files with their JSON files.`;
  show(usable, named.name);
  return null;
}

export function openUrl(text) {
  let url;
  try {
    url = new URL(text.trim(), document.baseURI);
  } catch {
    return `${text} is not a URL.`;
  }
  if (!/^https?:$/.test(url.protocol)) return `${url.protocol} is not supported: give an https URL.`;
  show(url.href, url.pathname.split("/").filter(Boolean).at(-1) ?? url.host);
  return null;
}
