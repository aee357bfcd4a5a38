// Files that are downloaded once: the browser keeps them.
const STORE = "candle-models";

// Chunks are handed to the browser in pieces, which it may keep on disk.
const PIECE = 16 << 20;

async function download(url, progress) {
  const response = await fetch(url);
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  const total = Number(response.headers.get("content-length")) || 0;
  const [pieces, chunks] = [[], []];
  let [got, held] = [0, 0];
  const reader = response.body.getReader();
  for (let next = await reader.read(); !next.done; next = await reader.read()) {
    chunks.push(next.value);
    got += next.value.length;
    held += next.value.length;
    if (held >= PIECE) {
      pieces.push(new Blob(chunks.splice(0)));
      held = 0;
    }
    progress(got, total);
  }
  if (total && got !== total) throw new Error(`${url}: ${got} of ${total} bytes came`);
  return new Blob([...pieces, ...chunks]);
}

// The file as a Blob. Where the browser keeps nothing (a private window, a full disk) it is downloaded each time.
export async function kept(url, progress) {
  let store = null;
  try {
    store = await caches.open(STORE);
    const found = await store.match(url);
    if (found) return await found.blob();
  } catch {
    store = null;
  }
  const blob = await download(url, progress);
  try {
    await store?.put(url, new Response(blob));
    const found = await store?.match(url);
    if (found) return await found.blob();
  } catch {
    // Not kept, but here.
  }
  return blob;
}
