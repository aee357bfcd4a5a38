// Whether a model fits, in numbers, before it is loaded.
import { bytes } from "./gpu.js";

const GIB = 1 << 30;
// WebAssembly's heap ends there; the module itself needs some of it.
const HEAP = 4 * GIB - (GIB >> 2);
// The KV cache grows with the text. A model with a longer context is judged by this many tokens.
const TOKENS = 2048;
// The rest is for the system and the browser.
const SHARE = 0.75;

const count = (n) => n.toLocaleString("en");

// `facts` are the model's. `ram` is the memory of the machine in bytes, which browsers round and limit; undefined if they do not tell.
export function judge(facts, adapter, ram) {
  const tokens = Math.min(facts.context, TOKENS);
  const cache = facts.per_token * tokens;
  const all = facts.weights + cache;
  const parts = [`${bytes(facts.weights)} for weights`];
  if (cache) parts.push(`${bytes(cache)} for a KV cache of ${count(tokens)} tokens`);
  const needs = `It needs ${bytes(all)}: ${parts.join(", ")}. Its largest tensor has ${bytes(facts.largest)}.`;
  const say = (verdict, has) => ({ verdict, text: `${needs} ${has}` });
  if (!adapter) {
    const has = `WebAssembly, which runs it on the CPU, has ${bytes(HEAP)}.`;
    return say(all > HEAP ? "no" : "fits", has);
  }
  const most = Number(adapter.max_buffer_size);
  const buffer = `This GPU's largest buffer has ${bytes(most)}.`;
  if (facts.largest > most) return say("no", buffer);
  if (!ram) return say("fits", `${buffer} The browser does not tell the memory of this machine.`);
  const has = `${buffer} The browser reports ${bytes(ram)} of memory or more.`;
  return say(all > ram * SHARE ? "tight" : "fits", has);
}
