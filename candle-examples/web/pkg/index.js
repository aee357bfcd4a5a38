// Models in a browser, in a worker each. index.d.ts describes the exports.
import { Caller } from "./lib/caller.js";
import { Generation, messages } from "./lib/generation.js";
import { parts } from "./lib/parts.js";
import { keyOf, list, remove } from "./lib/store.js";

export { Caller, list as kept, remove };

async function hasAdapter() {
  return Boolean(await navigator.gpu?.requestAdapter().catch(() => null));
}

class Model {
  #caller;
  #busy = false;

  constructor(caller, facts) {
    this.#caller = caller;
    Object.assign(this, facts);
  }

  generate(prompt, options = {}) {
    options.signal?.throwIfAborted();
    if (this.#busy) throw new Error("the model is generating; one text at a time");
    this.#busy = true;
    const { signal, ...rest } = options;
    const run = async (show) => {
      try {
        const call = { messages: messages(prompt), options: rest };
        const { figures, adapter } = await this.#caller.call("generate", call, ({ piece }) => show(piece));
        this.adapter = adapter;
        return figures;
      } finally {
        this.#busy = false;
      }
    };
    return new Generation(run, () => this.#caller.send({ stop: true }), signal);
  }

  embed(texts) {
    return this.#caller.call("embed", { texts });
  }

  close() {
    this.#caller.close();
  }
}

// Whether all of a model is in the browser's storage, so that nothing has to be asked of its server.
async function present(all) {
  const key = await keyOf(all).catch(() => null);
  return (await list()).some((model) => model.key === key && model.complete);
}

export async function load(source, options = {}) {
  const { onProgress = () => {}, check = () => true, signal, keep = true } = options;
  signal?.throwIfAborted();
  const all = parts(source, document.baseURI);
  const device = options.device ?? (await hasAdapter() ? "webgpu" : "cpu");
  const caller = new Caller();
  const abort = () => caller.close(signal.reason);
  signal?.addEventListener("abort", abort);
  const heard = async ({ progress, check: asked }) => {
    if (progress) onProgress(progress);
    if (!asked) return;
    try {
      caller.send({ proceed: Boolean(await check(asked.facts, asked.adapter)) });
    } catch (error) {
      caller.close(error);
    }
  };
  try {
    const name = options.name ?? all.find((part) => /\.(gguf|safetensors)$/i.test(part.name))?.name ?? all[0].name;
    const kept = keep && (await present(all) ? "present" : "wanted");
    const loaded = await caller.call("load", { device, parts: all, name, kept }, heard);
    return new Model(caller, { name, ...loaded });
  } catch (error) {
    caller.close();
    throw error;
  } finally {
    signal?.removeEventListener("abort", abort);
  }
}
