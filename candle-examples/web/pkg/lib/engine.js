// The wasm module behind an interface for one model, in whatever thread this runs.
import init, { Session, bench_shapes, bench_weights } from "../candle_web.js";
import { counted } from "./source.js";

// Lets the event loop process messages. Awaiting a settled promise would not.
function breathing() {
  if (globalThis.setImmediate) return () => new Promise((resolve) => setImmediate(resolve));
  const { port1, port2 } = new MessageChannel();
  let resume = () => {};
  port1.onmessage = () => resume();
  return () => new Promise((resolve) => {
    resume = resolve;
    port2.postMessage(null);
  });
}

// After a trap the module is unusable.
function readable(error) {
  if (!(error instanceof WebAssembly.RuntimeError)) return error;
  return new Error(`the WebAssembly module failed (${error.message}): the file may be damaged, or the memory too small. Load a model again.`);
}

export class Engine {
  // `wasm` is the module's bytes where it cannot be fetched.
  static async open(device, wasm) {
    await init(wasm && { module_or_path: wasm });
    return new Engine(await Session.open(device));
  }

  constructor(session) {
    this.session = session;
    this.breathe = breathing();
    this.stopped = false;
  }

  adapter() {
    return this.session.adapter() ?? null;
  }

  inspect(files) {
    try {
      return this.session.inspect(files);
    } catch (error) {
      throw readable(error);
    }
  }

  async load(files, say) {
    const total = files.weights.reduce((sum, file) => sum + file.size, 0);
    let [got, said] = [0, 0];
    const read = (bytes) => {
      got += bytes;
      if (performance.now() - said > 100) {
        said = performance.now();
        say(Math.min(got, total), total);
      }
    };
    const weights = files.weights.map((file) => counted(file, read));
    try {
      await this.session.load({ weights, file: files.file });
    } catch (error) {
      throw readable(error);
    }
  }

  stop() {
    this.stopped = true;
  }

  // Passes each piece of text to `show`.
  async generate(messages, options, show) {
    this.stopped = false;
    const { maxTokens = 256, temperature = 0, topP, seed = 0 } = options;
    const wish = { tokens: maxTokens, temperature, top_p: topP, seed };
    try {
      return await this.session.generate(messages, wish, async (piece) => {
        show(piece);
        await this.breathe();
        return !this.stopped;
      });
    } catch (error) {
      throw readable(error);
    }
  }

  async embed(texts) {
    try {
      return await this.session.embed(texts);
    } catch (error) {
      throw readable(error);
    }
  }

  // One measured pass of llama-bench: ms in all, and of the slowest step.
  async bench({ shape, weights, room, prompt, tokens, ahead }) {
    const wanted = `${shape} ${weights} ${room}`;
    try {
      if (this.benched !== wanted) {
        this.model?.free();
        this.model = null;
        this.model = this.session.bench(shape, weights, room);
        this.benched = wanted;
      }
      return [...await this.model.run(prompt, tokens, ahead)];
    } catch (error) {
      throw readable(error);
    }
  }

  static choices() {
    return { shapes: bench_shapes(), weights: bench_weights() };
  }
}
