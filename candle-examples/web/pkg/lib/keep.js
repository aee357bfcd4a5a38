// Copies the files of a model into the browser's storage in pieces. An interrupted download is continued.
import { Folder, keyOf } from "./store.js";

const PIECE = 4 << 20;
const MIB = 1 << 20;
const mib = (bytes) => `${(bytes / MIB).toFixed(0)} MiB`;

// Thrown where the storage cannot take a model; it can be used without.
export class NotKept extends Error {}

async function room(bytes) {
  const { quota = Infinity, usage = 0 } = await navigator.storage.estimate();
  if (bytes > quota - usage) {
    throw new NotKept(`${mib(bytes)} do not fit into the browser's storage, which has ${mib(quota - usage)} left`);
  }
}

function put(file, bytes, at) {
  let written = 0;
  try {
    while (written < bytes.length) written += file.write(bytes.subarray(written), { at: at + written });
  } catch (error) {
    if (error.name !== "QuotaExceededError") throw error;
    throw new NotKept(`the browser's storage is full after ${mib(at + written)}`);
  }
}

const total = (response, at) => {
  const range = Number(response.headers.get("content-range")?.split("/")[1]);
  if (range) return range;
  // The length of a compressed body is another.
  if (response.headers.get("content-encoding")) return 0;
  return (Number(response.headers.get("content-length")) || -at) + at;
};

export async function fetched(url, options) {
  let response;
  try {
    response = await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error(`${url} cannot be reached, or does not allow other pages to read it (CORS): download it, and open the file`);
  }
  if (!response.ok && response.status !== 416) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  return response;
}

// Downloads to `file` from where an earlier download ended.
async function download(part, file, { signal, say }) {
  let at = file.getSize();
  if (at && part.bytes && at >= part.bytes) at = 0;
  const headers = at ? { Range: `bytes=${at}-`, ...(part.etag ? { "If-Range": part.etag } : {}) } : {};
  let response = await fetched(part.url, { headers, signal });
  // Without a tag, the size tells whether the file is still the same.
  const other = at && !part.etag && total(response, at) !== part.bytes;
  if (response.status === 416 || (response.status === 206 && other)) {
    await response.body?.cancel();
    response = await fetched(part.url, { signal });
  }
  if (response.status !== 206) {
    at = 0;
    file.truncate(0);
  }
  const bytes = total(response, at);
  await room(bytes - at);
  const etag = response.headers.get("etag");
  await part.known(bytes, etag?.startsWith("W/") ? null : etag);
  const reader = response.body.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    put(file, next.value, at);
    at += next.value.length;
    say(at, bytes);
  }
  if (bytes && at !== bytes) throw new Error(`${part.url}: ${at} of ${bytes} bytes received; load it again to continue`);
  await part.known(at, part.etag);
}

async function copy(blob, file, { signal, say }) {
  file.truncate(0);
  for (let at = 0; at < blob.size; at += PIECE) {
    signal?.throwIfAborted();
    put(file, new Uint8Array(await blob.slice(at, at + PIECE).arrayBuffer()), at);
    say(Math.min(at + PIECE, blob.size), blob.size);
  }
}

// Returns the key and the kept files as Blobs. Files that are already there are not read again.
export async function keep(parts, name, { signal, say }) {
  if (!navigator.storage?.getDirectory) throw new NotKept("this browser has no storage for files");
  const key = parts[0].url?.startsWith("kept:") ? parts[0].url.slice(5) : await keyOf(parts);
  let folder;
  try {
    folder = await Folder.open(key, !parts[0].url?.startsWith("kept:"));
  } catch (error) {
    if (error.name === "NotFoundError") throw new Error("this model is no longer in the browser's storage");
    throw new NotKept(`the browser gives no storage: ${error.message}`);
  }
  const files = folder.facts?.files ?? parts.map(({ name, url, blob }) => ({ name, url, bytes: blob?.size ?? 0 }));
  const facts = { name, added: Date.now(), ...folder.facts, files };
  const bytes = parts.reduce((sum, { blob }) => sum + (blob?.size ?? 0), 0);
  await folder.describe(facts);
  const blobs = [];
  for (const [index, { name, url, blob }] of parts.entries()) {
    const about = files[index];
    const there = await folder.blob(index).catch(() => null);
    if (!there || !about.bytes || there.size !== about.bytes) {
      if (url?.startsWith("kept:")) throw new Error(`${name} is not complete: open the file again`);
      if (blob) await room(bytes);
      const known = async (bytes, etag) => {
        Object.assign(about, { bytes, etag });
        await folder.describe(facts);
      };
      const to = { signal, say: (got, total) => say(blob ? "Copying" : "Downloading", got, total) };
      await folder.write(index, (file) => (blob ? copy(blob, file, to) : download({ ...about, url, known }, file, to)));
    }
    blobs.push({ name, blob: await folder.blob(index) });
  }
  return { key, files: blobs };
}
