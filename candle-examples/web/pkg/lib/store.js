// Models in the browser's private file system (OPFS): a folder per model, whose files are numbered. Names are only data in model.json, since
// they may be anything.

const FOLDER = "candle-models";
const ABOUT = "model.json";

async function root(create) {
  const top = await navigator.storage.getDirectory();
  return top.getDirectoryHandle(FOLDER, { create });
}

async function hash(text) {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(text));
  return [...new Uint8Array(digest).subarray(0, 12)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

// The same files have the same key.
export function keyOf(parts) {
  const identity = ({ name, url, blob }) => url ?? `${name} ${blob.size} ${blob.lastModified ?? ""}`;
  return hash(parts.map(identity).join("\n"));
}

async function about(folder) {
  try {
    const file = await (await folder.getFileHandle(ABOUT)).getFile();
    return JSON.parse(await file.text());
  } catch {
    return null;
  }
}

const size = async (folder, index) => {
  try {
    return (await (await folder.getFileHandle(String(index))).getFile()).size;
  } catch {
    return 0;
  }
};

// Every kept model, also those whose download was interrupted.
export async function list() {
  let top;
  try {
    top = await root(false);
  } catch {
    return [];
  }
  const models = [];
  for await (const [key, folder] of top.entries()) {
    if (folder.kind !== "directory") continue;
    const facts = await about(folder) ?? { name: "(damaged)", added: 0, files: [] };
    const sizes = await Promise.all(facts.files.map((_, index) => size(folder, index)));
    models.push({
      key,
      name: facts.name,
      added: facts.added,
      bytes: sizes.reduce((a, b) => a + b, 0),
      complete: facts.files.length > 0 && facts.files.every((file, i) => file.bytes === sizes[i]),
      source: facts.files.map(({ name, url }) => ({ name, url: url ?? `kept:${key}` })),
    });
  }
  return models.sort((a, b) => b.added - a.added);
}

export async function remove(key) {
  await (await root(false)).removeEntry(key, { recursive: true });
}

// Writing needs synchronous handles, which only workers have.
export class Folder {
  static async open(key, create = true) {
    const folder = await (await root(create)).getDirectoryHandle(key, { create });
    return new Folder(key, folder, await about(folder));
  }

  constructor(key, folder, facts) {
    Object.assign(this, { key, folder, facts });
  }

  async describe(facts) {
    this.facts = facts;
    const handle = await this.folder.getFileHandle(ABOUT, { create: true });
    const file = await handle.createSyncAccessHandle();
    try {
      const bytes = new TextEncoder().encode(JSON.stringify(facts));
      file.truncate(0);
      file.write(bytes, { at: 0 });
      file.flush();
    } finally {
      file.close();
    }
  }

  // Calls `write` with a synchronous handle.
  async write(index, write) {
    const handle = await this.folder.getFileHandle(String(index), { create: true });
    const file = await handle.createSyncAccessHandle();
    try {
      await write(file);
      file.flush();
    } finally {
      file.close();
    }
  }

  async blob(index) {
    return (await this.folder.getFileHandle(String(index))).getFile();
  }
}
