// Prints a report in Markdown, as `webgpu-info --report` does. Does not need the wasm module.
import { problem } from "./gpu.js";

const at = (id) => document.getElementById(id);

function pairs(object) {
  const names = [];
  for (const name in object) names.push(name);
  return names.filter((name) => typeof object[name] !== "function").sort().map((name) => [name, object[name]]);
}

const suspends = typeof WebAssembly.Suspending === "function";
const section = (title, rows) => [title, ...rows.map(([name, value]) => `  ${name}: ${value}`), ""];

// Each doubles 64 numbers, by what an optional feature adds.
const SHADERS = [
  ["core", null, "", "y[i] = x[i] * 2.0;"],
  ["shader-f16", "shader-f16", "enable f16;", "y[i] = f32(f16(x[i]) * 2.0h);"],
  ["subgroups", "subgroups", "enable subgroups;", "y[i] = x[i] * f32(subgroupAdd(2u)) / f32(subgroupAdd(1u));"],
];

async function doubles(device, enable, statement) {
  device.pushErrorScope("validation");
  const code = `${enable}
    @group(0) @binding(0) var<storage, read> x: array<f32>;
    @group(0) @binding(1) var<storage, read_write> y: array<f32>;
    @compute @workgroup_size(64)
    fn main(@builtin(local_invocation_index) i: u32) { ${statement} }`;
  const module = device.createShaderModule({ code });
  const pipeline = device.createComputePipeline({ layout: "auto", compute: { module } });
  const buffer = (usage) => device.createBuffer({ size: 256, usage });
  const x = buffer(GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_DST);
  const y = buffer(GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC);
  const back = buffer(GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST);
  const numbers = Float32Array.from({ length: 64 }, (_, i) => i - 32);
  device.queue.writeBuffer(x, 0, numbers);
  const entries = [x, y].map((buffer, binding) => ({ binding, resource: { buffer } }));
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, device.createBindGroup({ layout: pipeline.getBindGroupLayout(0), entries }));
  pass.dispatchWorkgroups(1);
  pass.end();
  encoder.copyBufferToBuffer(y, 0, back, 0, 256);
  device.queue.submit([encoder.finish()]);
  const error = await device.popErrorScope();
  if (error) return error.message;
  await back.mapAsync(GPUMapMode.READ);
  const got = new Float32Array(back.getMappedRange());
  return numbers.every((number, i) => got[i] === 2 * number) ? "right" : `wrong: ${got}`;
}

async function checks(adapter) {
  const offered = SHADERS.filter(([, feature]) => !feature || adapter.features.has(feature));
  const requiredFeatures = offered.map(([, feature]) => feature).filter(Boolean);
  const device = await adapter.requestDevice({ requiredFeatures });
  const rows = [];
  for (const [name, , enable, statement] of offered) {
    rows.push([name, await doubles(device, enable, statement).catch((error) => error.message)]);
  }
  device.destroy();
  return rows;
}

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
    // Last, since an adapter makes one device.
    ...section("checks", await checks(adapter).catch((error) => [["device", error.message]])),
  ];
}

at("report").textContent = ["```text", ...await report(), "```"].join("\n");
at("copy").addEventListener("click", async () => {
  await navigator.clipboard.writeText(at("report").textContent);
  at("copied").textContent = "copied";
});
document.body.dataset.state = "done";
