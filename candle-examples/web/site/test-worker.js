// Runs shaders and cases in a worker. Messages in: { filter, every, from }.
// Out: names, shader, asynchronous, case, done, failed.
import init, { adapter, known_failure, open, run, run_asynchronous, shaders } from "./pkg-tests/candle_webgpu_web_tests.js";

// Compiles one in `every` shaders of each kernel.
async function compile(every) {
  const gpu = await navigator.gpu.requestAdapter();
  const wanted = ["shader-f16", "subgroups"].filter((name) => gpu.features.has(name));
  const device = await gpu.requestDevice({ requiredFeatures: wanted });
  const texts = shaders(every);
  for (let i = 0; i < texts.length; i += 2) {
    const [name, code] = [texts[i], texts[i + 1]];
    const { messages } = await device.createShaderModule({ label: name, code }).getCompilationInfo();
    const errors = messages.filter((m) => m.type === "error");
    const first = errors.map((m) => `line ${m.lineNum}: ${m.message}: ${code.split("\n")[m.lineNum - 1]?.trim()}`);
    postMessage({ type: "shader", name, error: first.slice(0, 3).join("; ") || null });
  }
  device.destroy();
}

// Selects one in `every` cases of each group: the first two parts of a name, without its last part.
function chosen(names, filter, every) {
  const seen = new Map();
  return names.map((name, index) => ({ name, index })).filter(({ name }) => {
    if (!name.includes(filter)) return false;
    const group = name.split("/").slice(0, -1).slice(0, 2).join("/");
    const count = seen.get(group) ?? 0;
    seen.set(group, count + 1);
    return count % every === 0;
  });
}

onmessage = async ({ data: { filter, every, from } }) => {
  let at = -1;
  try {
    await init();
    const cases = chosen(await open(), filter, every);
    postMessage({ type: "names", count: cases.length, adapter: adapter() });
    if (from === 0) {
      if (!filter || "shaders".startsWith(filter)) await compile(every);
      if (!filter || "asynchronous".startsWith(filter)) {
        const error = await run_asynchronous().then(() => null, (e) => e.message ?? String(e));
        postMessage({ type: "asynchronous", error });
      }
    }
    for (at = from; at < cases.length; at++) {
      const { name, index } = cases[at];
      const start = performance.now();
      let [worst, error] = [0, null];
      try {
        worst = await run(index);
      } catch (e) {
        // After a trap the module is unusable: the page starts a new worker.
        if (e instanceof WebAssembly.RuntimeError) throw e;
        error = e.message ?? String(e);
      }
      const known = error !== null && known_failure(name) !== undefined;
      postMessage({ type: "case", name, worst, error, known, ms: performance.now() - start });
    }
    postMessage({ type: "done" });
  } catch (e) {
    postMessage({ type: "failed", at, message: e.message ?? String(e) });
  }
};
