// Prints a plain-text report. Does not need the wasm module.
import { problem } from "./gpu.js";

const at = (id) => document.getElementById(id);

function pairs(object) {
  const names = [];
  for (const name in object) names.push(name);
  return names.filter((name) => typeof object[name] !== "function").sort().map((name) => [name, object[name]]);
}

const suspends = typeof WebAssembly.Suspending === "function";
const section = (title, rows) => [title, ...rows.map(([name, value]) => `  ${name}: ${value}`), ""];

async function report() {
  const lines = section("browser", [
    ["user agent", navigator.userAgent],
    ["secure context", isSecureContext],
    ["cores", navigator.hardwareConcurrency],
    ["WebAssembly JSPI", suspends],
  ]);
  const why = await problem();
  if (why) {
    at("notice").hidden = false;
    at("notice").textContent = why;
    return [...lines, `WebGPU: ${why}`];
  }
  const adapter = await navigator.gpu.requestAdapter();
  return [
    ...lines,
    ...section("adapter", pairs(adapter.info)),
    ...section("features", [...adapter.features].sort().map((name) => [name, "yes"])),
    ...section("WGSL", [...navigator.gpu.wgslLanguageFeatures].sort().map((name) => [name, "yes"])),
    ...section("limits", pairs(adapter.limits)),
  ];
}

at("report").textContent = (await report()).join("\n");
at("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(at("report").textContent);
  at("copied").textContent = "copied";
});
document.body.dataset.state = "done";
