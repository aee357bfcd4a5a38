// Runs the model in a worker. Messages in: load, prompt, stop, clear. Out: progress, ready, piece, done, failed.
import init, { Session } from "./pkg/candle_web.js";
import { kept } from "./files.js";

let session = null;
let stopped = false;

// Lets the event loop process messages. Awaiting a settled promise would not.
const { port1, port2 } = new MessageChannel();
let resume = () => {};
port1.onmessage = () => resume();
const breathe = () => new Promise((resolve) => {
  resume = resolve;
  port2.postMessage(null);
});

async function load({ device, model }) {
  const say = (text, part) => postMessage({ type: "progress", text, part });
  say("Starting");
  await init();
  session = await Session.open(device);
  const file = (url) => kept(url, (got, total) => say("Downloading", { got, total }));
  const weights = await file(model.weights);
  const tokenizer = model.tokenizer ? await file(model.tokenizer) : undefined;
  say("Loading");
  const start = performance.now();
  await session.load(weights, tokenizer);
  postMessage({ type: "ready", ms: performance.now() - start, adapter: session.adapter() });
}

async function prompt({ text, wish }) {
  stopped = false;
  let count = 0;
  let first = 0;
  const show = async (piece) => {
    first ||= performance.now();
    const seconds = (performance.now() - first) / 1e3;
    postMessage({ type: "piece", piece, rate: count ? count / seconds : null });
    count += 1;
    await breathe();
    return !stopped;
  };
  const figures = await session.generate(text, wish, show);
  postMessage({ type: "done", figures, adapter: session.adapter() });
}

const calls = {
  load,
  prompt,
  stop: () => { stopped = true; },
  clear: () => session.clear(),
};

onmessage = async ({ data }) => {
  try {
    await calls[data.type](data);
  } catch (error) {
    postMessage({ type: "failed", during: data.type, message: error?.message ?? String(error) });
  }
};
