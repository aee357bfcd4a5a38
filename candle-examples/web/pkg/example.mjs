// Continues a text with a model from disk, in Node or Deno:  node example.mjs MODEL.gguf "Once upon a time"
import { load } from "candle-webgpu";

const [path, prompt = "Once upon a time"] = process.argv.slice(2);
const model = await load(path.split(","), { device: process.env.DEVICE });
const text = model.generate(prompt, { maxTokens: 50 });
for await (const piece of text) process.stdout.write(piece);
console.log(`\n${JSON.stringify((await text.figures).ids)}`);
process.exit();
