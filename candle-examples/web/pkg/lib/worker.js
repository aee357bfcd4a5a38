// Runs a model in a worker. Messages in: { id, call, ... }, for a call of `calls`, or { proceed }. Out: { id, result } or { id, error } for each
// call; before that any number of { id, progress }, { id, piece } and { id, check }.
import { Engine } from "./engine.js";
import { NotKept, fetched, keep } from "./keep.js";
import { complete, roles } from "./parts.js";
import { ofBlob, ofUrl } from "./source.js";

let engine = null;
let proceed = () => {};

// The files of the model as they are before anything is downloaded; null if that is impossible.
async function remote(parts) {
  const files = [];
  for (const { name, url, blob } of parts) {
    const file = blob ? ofBlob(blob) : await ofUrl(url);
    if (!file) return null;
    files.push({ name, file });
  }
  return roles(files);
}

const blobs = (files) => roles(files.map(({ name, blob }) => ({ name, file: ofBlob(blob) })));

// Where the browser keeps nothing, a model is read from its server by ranges, or downloaded to memory.
async function unkept(parts, say) {
  const ranged = await remote(parts);
  if (ranged) return ranged;
  const files = [];
  for (const { name, url, blob } of parts) {
    say("Downloading");
    files.push({ name, blob: blob ?? await (await fetched(url)).blob() });
  }
  return blobs(files);
}

async function approved(id, files) {
  const facts = engine.inspect(files);
  postMessage({ id, check: { facts, adapter: engine.adapter() } });
  const answer = await new Promise((resolve) => { proceed = resolve; });
  if (!answer) throw new DOMException("the model was not loaded", "AbortError");
  return facts;
}

async function load({ id, device, parts: given, name, kept }) {
  const say = (text, got, total) => postMessage({ id, progress: { text, got, total } });
  say("Starting");
  engine = await Engine.open(device);
  const parts = await complete(given, fetched);
  let facts = null;
  const there = parts.every(({ url }) => url?.startsWith("kept:"));
  if (!there && kept !== "present") {
    // The sizes in the metadata are known before the weights are downloaded.
    const files = await remote(parts).catch(() => null);
    if (files) facts = await approved(id, files);
  }
  let [files, key, notKept] = [null, undefined, undefined];
  try {
    if (!kept) throw new NotKept("");
    const copies = await keep(parts, name, { say });
    key = copies.key;
    files = blobs(copies.files);
  } catch (error) {
    if (!(error instanceof NotKept)) throw error;
    notKept = error.message;
    files = await unkept(parts, say);
  }
  facts ??= await approved(id, files);
  say("Loading");
  const start = performance.now();
  await engine.load(files, (got, total) => say("Loading", got, total));
  return { facts, adapter: engine.adapter(), key, notKept, ms: performance.now() - start };
}

const calls = {
  load,
  async generate({ id, messages, options }) {
    const figures = await engine.generate(messages, options, (piece) => postMessage({ id, piece }));
    return { figures, adapter: engine.adapter() };
  },
  embed: ({ texts }) => engine.embed(texts),
  async open({ device }) {
    engine = await Engine.open(device);
    return { adapter: engine.adapter(), ...Engine.choices() };
  },
  bench: (pass) => engine.bench(pass),
};

onmessage = async ({ data }) => {
  if (data.stop) return engine?.stop();
  if ("proceed" in data) return proceed(data.proceed);
  try {
    postMessage({ id: data.id, result: await calls[data.call](data) });
  } catch (error) {
    postMessage({ id: data.id, error: { name: error?.name, message: error?.message ?? String(error) } });
  }
};
