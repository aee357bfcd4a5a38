// Files that can be read synchronously, as the wasm module does: { size, read(from, to) }.

// Only workers can read these.
export function ofBlob(blob) {
  const reader = new FileReaderSync();
  return {
    size: blob.size,
    read: (from, to) => new Uint8Array(reader.readAsArrayBuffer(blob.slice(from, to))),
  };
}

export function ofBytes(bytes) {
  return { size: bytes.length, read: (from, to) => bytes.subarray(from, to) };
}

// A file on a server, read by range requests; null if the server does not support them. Only for workers.
export async function ofUrl(url, signal) {
  const response = await fetch(url, { headers: { Range: "bytes=0-0" }, signal });
  await response.body?.cancel();
  if (!response.ok) throw new Error(`${url}: ${response.status} ${response.statusText}`);
  const size = Number(response.headers.get("content-range")?.split("/")[1]);
  if (response.status !== 206 || !size) return null;
  const read = (from, to) => {
    if (to <= from) return new Uint8Array();
    const request = new XMLHttpRequest();
    request.open("GET", url, false);
    request.responseType = "arraybuffer";
    request.setRequestHeader("Range", `bytes=${from}-${to - 1}`);
    request.send();
    if (request.status !== 206) throw new Error(`${url}: ${request.status} instead of a range`);
    return new Uint8Array(request.response);
  };
  return { size, read };
}

// Calls `say` with the number of bytes read so far.
export function counted(file, say) {
  return {
    size: file.size,
    read(from, to) {
      say(to - from);
      return file.read(from, to);
    },
  };
}
