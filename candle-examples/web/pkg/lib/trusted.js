// Scripts under a policy of trusted types, which a page can allow by the name `candle`. Only the package's own workers, and those that a page
// names in its code, pass it: no text of a model or a file gets here.
let policy = null;
try {
  policy = globalThis.trustedTypes?.createPolicy("candle", {
    createScriptURL(url) {
      if (new URL(url, location.href).origin === new URL(import.meta.url).origin) return url;
      throw new TypeError(`${url} is of another origin`);
    },
  });
} catch {
  // The page's policy does not list this name.
}

export const script = (url) => policy?.createScriptURL(String(url)) ?? url;

export function worker(url) {
  return new Worker(script(url), { type: "module" });
}
