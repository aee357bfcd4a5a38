// What a caller names as a model, as a list of its files: { name, url } or { name, blob }.

const JSONS = ["config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja"];
const OPTIONAL = new Set(["generation_config.json", "tokenizer_config.json", "chat_template.jinja"]);

function last(path) {
  const name = path.split("/").filter(Boolean).at(-1) ?? "";
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function part(source, base) {
  if (source?.name !== undefined && (source.url || source.blob)) return source;
  if (source instanceof Blob) return { name: source.name ?? "model.gguf", blob: source };
  const url = new URL(source, base);
  if (!["http:", "https:", "blob:"].includes(url.protocol)) throw new Error(`${url.protocol} is not supported: give an https URL`);
  return { name: last(url.pathname), url: url.href };
}

// Resolves relative URLs against `base`. The result can be sent to a worker.
export function parts(source, base) {
  const all = (Array.isArray(source) ? source : [source]).map((one) => part(one, base));
  if (!all.length) throw new Error("no file was given");
  return all;
}

// Adds the files that a safetensors folder has beside the given one. `fetched` throws where fetch gives an error status.
export async function complete(all, fetched) {
  const [one] = all;
  if (all.length > 1 || !one.url) return all;
  const folder = one.url.split(/[?#]/)[0].endsWith("/");
  if (!folder && !one.name.endsWith(".safetensors")) return all;
  const at = (name) => ({ name, url: new URL(name, one.url).href });
  const exists = (name) => fetched(at(name).url, { method: "HEAD" }).then(() => true, () => false);
  const found = [];
  for (const name of JSONS) {
    if (!OPTIONAL.has(name) || await exists(name)) found.push(at(name));
  }
  if (!folder) return [...found, one];
  const index = "model.safetensors.index.json";
  if (!await exists(index)) return [...found, at("model.safetensors")];
  const { weight_map } = await (await fetched(at(index).url)).json();
  return [...found, ...[...new Set(Object.values(weight_map))].map((name) => at(String(name)))];
}

const isWeights = (name) => /\.(gguf|safetensors|bin)$/i.test(name) && !name.endsWith("tokenizer.bin");

// Sorts opened files by what they are, for the wasm module.
export function roles(files) {
  const named = new Map();
  const weights = [];
  for (const { name, file } of files) {
    if (name.endsWith("tokenizer.bin")) named.set("tokenizer.bin", file);
    else if (isWeights(name) || files.length === 1) weights.push({ name, file });
    else named.set(name, file);
  }
  weights.sort((a, b) => (a.name < b.name ? -1 : 1));
  return { weights: weights.map(({ file }) => file), file: (name) => named.get(name) };
}
