// Explains why WebGPU is not available; null if it is.
export async function problem() {
  if (!globalThis.isSecureContext) {
    return "WebGPU needs a secure context: open this page through https or localhost.";
  }
  if (!navigator.gpu) {
    return "This browser has no WebGPU. Chrome and Edge 113, Safari 26 and Firefox 141 (Windows; macOS: 145) have it; "
      + "on Linux it may have to be enabled first.";
  }
  try {
    if (await navigator.gpu.requestAdapter()) return null;
    return "This browser has WebGPU but no adapter for it: the GPU or its driver may be on the browser's block list "
      + "(chrome://gpu, about:support), or hardware acceleration is off.";
  } catch (error) {
    return `This browser's WebGPU does not work: ${error.message}`;
  }
}

const MIB = 1 << 20;

export function bytes(n) {
  return n >= 1 << 30 ? `${(n / (1 << 30)).toFixed(1)} GiB` : `${(n / MIB).toFixed(1)} MiB`;
}
