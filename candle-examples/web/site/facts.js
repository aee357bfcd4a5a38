// What the page tells about a device and a model.
import { table } from "./dom.js";
import { bytes } from "./gpu.js";

function device(adapter) {
  if (!adapter) return { CPU: "WebAssembly with 128-bit SIMD, one thread" };
  return {
    Adapter: adapter.name,
    Kind: adapter.kind,
    Features: adapter.features.join(", ") || "none (only core WebGPU)",
    Subgroups: adapter.subgroup ? adapter.subgroup.join(" to ") : "no",
    "Largest buffer": bytes(Number(adapter.max_buffer_size)),
    "Largest binding": bytes(Number(adapter.max_storage_buffer_binding_size)),
    "Storage buffers": adapter.max_storage_buffers,
    "Workgroup memory": `${adapter.max_workgroup_storage / 1024} KiB`,
    "Memory held": bytes(Number(adapter.allocated_bytes)),
  };
}

export function rows({ adapter, facts, key, notKept }) {
  const model = {
    Model: facts.name ?? "(has no name)",
    Format: `${facts.format}, ${facts.architecture}, ${(facts.parameters / 1e6).toFixed(0)} million parameters`,
    Context: `${facts.context} tokens`,
    Weights: bytes(facts.weights),
    "Kept in this browser": key ? "yes" : `no: ${notKept || "it is not wanted"}`,
  };
  return table({ ...device(adapter), ...model });
}
