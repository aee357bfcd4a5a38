// Runs llama-bench's measurements in a worker, and gives its lines of JSON.
import { Caller } from "./pkg/index.js";
import { at, element } from "./dom.js";
import { problem } from "./gpu.js";

const WARMUP = 1;
const FIELDS = ["shape", "weights", "prefill", "decode", "context", "reps"];
const address = new URLSearchParams(location.search);
const lines = [];
let worker = null;

const number = (id) => Number(at(id).value);

function become(state) {
  document.body.dataset.state = state;
  at("start").disabled = state !== "ready";
  at("stop").disabled = state !== "running";
}

function notice(text) {
  at("notice").hidden = !text;
  at("notice").textContent = text ?? "";
}

function median(values) {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}

function row(line) {
  const { shape, dtype, quant, context, tokens, ms, worst_step_ms: worst, tok_s: rate } = line;
  const test = line.sample === "ahead" ? `${line.test}, one pass ahead` : line.test;
  const spread = `${ms.min.toFixed(2)} .. ${ms.max.toFixed(2)}`;
  const cells = [test, shape, quant ?? dtype, context, tokens, ms.median.toFixed(2), spread, worst.toFixed(2), rate.toFixed(1)];
  at("rows").append(element("tr", {}, ...cells.map((text, i) => element("td", { text, className: i > 2 ? "number" : "" }))));
  lines.push(JSON.stringify(line));
  at("json").textContent = lines.join("\n");
  URL.revokeObjectURL(at("save").href);
  at("save").href = URL.createObjectURL(new Blob([`${lines.join("\n")}\n`], { type: "application/x-ndjson" }));
  at("save").hidden = false;
}

// The names of llama-bench's JSON.
async function measure(test, pass, adapter) {
  const [shape, weights, reps] = [at("shape").value, at("weights").value, number("reps")];
  const room = Math.max(number("prefill"), number("context") + number("decode"));
  const [all, worst] = [[], []];
  for (let run = -WARMUP; run < reps; run += 1) {
    at("status").textContent = `${test}, ${run < 0 ? "warm-up" : `run ${run + 1} of ${reps}`}`;
    const [ms, slowest] = await worker.call("bench", { shape, weights, room, ...pass });
    if (run < 0) continue;
    all.push(ms);
    worst.push(slowest);
  }
  const tokens = pass.tokens || pass.prompt;
  const [middle, quantized] = [median(all), /^q\d/.test(weights)];
  row({
    test, shape, dtype: quantized ? "f32" : weights, quant: quantized ? weights : null,
    device: at("device").value, adapter: adapter?.name ?? null,
    batch: 1, context: pass.tokens ? pass.prompt : 0, tokens, reps, sample: pass.ahead ? "ahead" : "device",
    ms: { median: middle, min: Math.min(...all), max: Math.max(...all) },
    ms_per_token: middle / tokens, worst_step_ms: Math.max(...worst), tok_s: (1e3 * tokens) / middle,
    stats: null, browser: navigator.userAgent,
  });
}

async function start() {
  notice(null);
  worker = new Caller();
  become("running");
  try {
    const { adapter } = await worker.call("open", { device: at("device").value });
    if (number("prefill")) await measure("prefill", { prompt: number("prefill"), tokens: 0, ahead: false }, adapter);
    for (const ahead of number("decode") ? [false, true] : []) {
      await measure("decode", { prompt: number("context"), tokens: number("decode"), ahead }, adapter);
    }
  } catch (error) {
    if (error.name !== "AbortError") notice(error.message);
  }
  at("status").textContent = "";
  worker.close();
  become("ready");
}

at("form").addEventListener("submit", (event) => { event.preventDefault(); start(); });
at("stop").addEventListener("click", () => worker.close());
at("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(at("json").textContent);
  at("copied").textContent = "copied";
});

become("loading");
const why = await problem();
if (why) {
  notice(`${why} The benchmark can run on the CPU.`);
  at("device").value = "cpu";
}
worker = new Caller();
const { shapes, weights } = await worker.call("open", { device: "cpu" });
worker.close();
at("shape").replaceChildren(...shapes.map((name) => new Option(name, name)));
at("weights").replaceChildren(...weights.map((name) => new Option(name, name)));
at("shape").value = "tinyllama-1.1b";
for (const id of [...FIELDS, "device"]) if (address.has(id)) at(id).value = address.get(id);
become("ready");
