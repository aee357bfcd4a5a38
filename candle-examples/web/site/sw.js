// Serves the page without a network: from the network if there is one, else what was kept. Models are in the browser's file system instead.
const CACHE = "candle-page";

// A network that does not answer for so long counts as none.
const PATIENCE = 3000;

self.addEventListener("install", (event) => {
  const keep = async () => {
    const files = await (await fetch("files.json")).json();
    const cache = await caches.open(CACHE);
    await cache.addAll(["./", "models.json", ...files]);
    await self.skipWaiting();
  };
  event.waitUntil(keep());
});

self.addEventListener("activate", (event) => event.waitUntil(self.clients.claim()));

async function answer(request) {
  const cache = await caches.open(CACHE);
  const key = request.url.split("?")[0];
  const network = fetch(request).then(async (response) => {
    if (response.status === 200) await cache.put(key, response.clone());
    return response;
  });
  const late = new Promise((resolve) => { setTimeout(resolve, PATIENCE); });
  const first = await Promise.race([network, late]).catch(() => null);
  return first ?? await cache.match(key) ?? network;
}

self.addEventListener("fetch", (event) => {
  const { request } = event;
  const url = new URL(request.url);
  const path = url.href.slice(self.registration.scope.length);
  const ours = url.href.startsWith(self.registration.scope) && !/^(models\/|test|pkg-tests)/.test(path);
  if (request.method === "GET" && ours && !request.headers.has("range")) event.respondWith(answer(request));
});
