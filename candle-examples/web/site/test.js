// Shows the worker's results. The repository's browser tests read `results`.
import { problem } from "./gpu.js";
import { worker as trusted } from "./pkg/lib/trusted.js";

const at = (id) => document.getElementById(id);
const address = new URLSearchParams(location.search);
const DTYPE = /^(u8|u32|i16|i32|i64|bf16|f16|f32|f64|f8e4m3)(?![a-z0-9])/;
let results = null;
let worker = null;
let drawn = 0;

function fresh() {
  return { adapter: "", count: 0, shaders: 0, cases: 0, failures: [], rows: new Map(), known: 0, asynchronous: false, done: false };
}

function fail(name, message) {
  results.failures.push({ name, message });
  const item = document.createElement("li");
  item.textContent = `${name}: ${message}`;
  at("failures").append(item);
}

function row(name) {
  const parts = name.split("/");
  const found = parts.findIndex((part) => DTYPE.test(part));
  const op = parts.slice(0, found > 0 ? found : 2).join("/");
  const dtype = found > 0 ? parts[found].match(DTYPE)[1] : "";
  const key = `${op} ${dtype}`;
  if (!results.rows.has(key)) results.rows.set(key, { op, dtype, cases: 0, failed: 0, worst: 0, ms: 0 });
  return results.rows.get(key);
}

function draw() {
  drawn = performance.now();
  const { adapter, count, cases, shaders, failures, done } = results;
  at("summary").textContent = `${adapter}: ${shaders} shaders, ${cases} of ${count} cases, ${failures.length} failed, ${results.known} known failures`
    + (done ? ", done" : "");
  at("progress").max = Math.max(count, 1);
  at("progress").value = cases;
  at("rows").replaceChildren(...[...results.rows.values()].map((r) => {
    const tr = document.createElement("tr");
    if (r.failed) tr.className = "failed";
    const cells = [r.op, r.dtype, r.cases, r.failed, r.worst ? r.worst.toExponential(1) : "0", r.ms.toFixed(0)];
    tr.append(...cells.map((text, i) => {
      const td = document.createElement("td");
      if (i > 1) td.className = "number";
      td.textContent = text;
      return td;
    }));
    return tr;
  }));
}

const heard = {
  names({ count, adapter }) { Object.assign(results, { count, adapter }); },
  shader({ name, error }) {
    results.shaders += 1;
    if (error) fail(`shader ${name}`, error);
  },
  asynchronous({ error }) {
    results.asynchronous = true;
    if (error) fail("asynchronous", error);
  },
  case({ name, worst, error, known, ms }) {
    const r = row(name);
    results.cases += 1;
    r.cases += 1;
    r.ms += ms;
    r.worst = Math.max(r.worst, worst);
    if (known) results.known += 1;
    else if (error) {
      r.failed += 1;
      fail(name, error);
    }
  },
  done() { finish(); },
  failed({ at: index, message }) {
    fail(index < 0 ? "start" : `case ${index}`, message);
    results.cases += 1;
    if (index < 0) finish();
    else begin(index + 1);
  },
};

function finish() {
  worker?.terminate();
  results.done = true;
  at("start").disabled = false;
  at("stop").disabled = true;
  document.body.dataset.state = "done";
  draw();
}

function begin(from) {
  worker?.terminate();
  worker = trusted("test-worker.js");
  worker.onerror = (e) => { fail("worker", e.message); finish(); };
  worker.onmessage = ({ data }) => {
    heard[data.type](data);
    if (performance.now() - drawn > 500) draw();
  };
  worker.postMessage({ filter: at("filter").value, every: Number(at("every").value), from });
}

function start() {
  results = fresh();
  globalThis.results = results;
  at("failures").replaceChildren();
  at("start").disabled = true;
  at("stop").disabled = false;
  document.body.dataset.state = "running";
  begin(0);
}

at("form").addEventListener("submit", (event) => { event.preventDefault(); start(); });
at("stop").addEventListener("click", finish);
at("filter").value = address.get("filter") ?? "";
at("every").value = address.get("every") ?? 1;
const why = await problem() ?? (typeof WebAssembly.Suspending === "function" ? null
  : "These tests read back in the middle of an op, which needs WebAssembly JSPI. This browser does not support it.");
if (why) {
  at("notice").hidden = false;
  at("notice").textContent = why;
  at("start").disabled = true;
} else if (address.has("start")) {
  start();
}
