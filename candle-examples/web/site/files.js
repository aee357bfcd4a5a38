// Downloads files once: the browser stores them.
const STORE = "candle-models";

// Chunks are joined into Blobs of this size, which the browser may keep on disk.
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
  if (total && got !== total) throw new Error(`${url}: ${got} of ${total} bytes received`);
  return new Blob([...pieces, ...chunks]);
}

// Returns the file as a Blob. If the browser cannot store it (private window, full disk), it is downloaded every time.
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
    // Could not be stored; use the downloaded Blob.
  }
  return blob;
}
