// Models in Node and Deno, in the calling thread. index.d.ts describes the exports.
import { closeSync, openSync, readFileSync, readSync, readdirSync, statSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";

import { Generation, messages } from "./lib/generation.js";
import { roles } from "./lib/parts.js";
import { ofBytes } from "./lib/source.js";

// wgpu looks for `navigator.gpu` only in windows and workers, which it knows by this class. The npm package `webgpu` brings Dawn to Node.
async function provide() {
  globalThis.WorkerGlobalScope ??= class WorkerGlobalScope {};
  if (globalThis.navigator?.gpu) return;
  const { create, globals } = await import("webgpu");
  Object.assign(globalThis, globals);
  const gpu = create([]);
  if (!globalThis.navigator) Object.defineProperty(globalThis, "navigator", { value: {}, configurable: true });
  Object.defineProperty(globalThis.navigator, "gpu", { value: gpu, configurable: true });
}

const path = (source) => (source instanceof URL || String(source).startsWith("file:") ? fileURLToPath(source) : source);

function ofPath(name) {
  const { size } = statSync(name);
  const file = openSync(name);
  const read = (from, to) => {
    const bytes = new Uint8Array(to - from);
    for (let at = 0; at < bytes.length;) {
      const got = readSync(file, bytes, at, bytes.length - at, from + at);
      if (!got) throw new Error(`${name} ended at ${from + at}`);
      at += got;
    }
    return bytes;
  };
  return { size, read, close: () => closeSync(file) };
}

async function open(source) {
  if (source instanceof Blob) {
    return [{ name: source.name ?? "model.gguf", file: ofBytes(new Uint8Array(await source.arrayBuffer())) }];
  }
  if (/^https?:/.test(String(source))) {
    const response = await fetch(source);
    if (!response.ok) throw new Error(`${source}: ${response.status} ${response.statusText}`);
    const bytes = new Uint8Array(await response.arrayBuffer());
    return [{ name: basename(new URL(source).pathname), file: ofBytes(bytes) }];
  }
  const given = path(source);
  const folder = statSync(given).isDirectory();
  const names = folder ? readdirSync(given).map((name) => join(given, name)) : [given];
  const wanted = names.filter((name) => !folder || /\.(safetensors|json|jinja)$/.test(name));
  return wanted.map((name) => ({ name: basename(name), file: ofPath(name) }));
}

async function engine(device) {
  // The module looks for WebGPU when it is loaded.
  const { Engine } = await import("./lib/engine.js");
  const wasm = readFileSync(new URL("./candle_web_bg.wasm", import.meta.url));
  if (device !== "cpu") await provide();
  return Engine.open(device, wasm);
}

class Model {
  #engine;
  #busy = false;

  constructor(engine, facts) {
    this.#engine = engine;
    Object.assign(this, { facts, adapter: engine.adapter() });
  }

  generate(prompt, options = {}) {
    options.signal?.throwIfAborted();
    if (this.#busy) throw new Error("the model is generating; one text at a time");
    this.#busy = true;
    const { signal, ...rest } = options;
    const run = (show) => this.#engine.generate(messages(prompt), rest, show).finally(() => { this.#busy = false; });
    return new Generation(run, () => this.#engine.stop(), signal);
  }

  embed(texts) {
    return this.#engine.embed(texts);
  }

  close() {
    this.#engine.session.free();
  }
}

export async function load(source, options = {}) {
  const { device = "webgpu", onProgress = () => {}, check = () => true, signal } = options;
  signal?.throwIfAborted();
  const opened = (await Promise.all((Array.isArray(source) ? source : [source]).map(open))).flat();
  try {
    const files = roles(opened);
    const made = await engine(device);
    const facts = made.inspect(files);
    if (!await check(facts, made.adapter())) throw new DOMException("the model was not loaded", "AbortError");
    await made.load(files, (got, total) => onProgress({ text: "Loading", got, total }));
    return new Model(made, facts);
  } finally {
    for (const { file } of opened) file.close?.();
  }
}

export const kept = async () => [];

export async function remove(key) {
  throw new Error(`no model is kept under ${key}: only browsers keep models`);
}
