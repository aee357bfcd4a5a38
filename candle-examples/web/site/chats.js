// Conversations, kept in the browser (IndexedDB).
//
// A chat: { id, kind, title, system, changed, forgotten, turns }. A turn: { prompt, answers, shown }. An answer: { text, model, tokens, rate,
// rates, stop }. The first `forgotten` turns no longer fit into the model's context.
const STORE = "chats";

let database = null;

function open() {
  database ??= new Promise((resolve, reject) => {
    const request = indexedDB.open("candle", 1);
    request.onupgradeneeded = () => request.result.createObjectStore(STORE, { keyPath: "id" });
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
  return database;
}

async function run(mode, act) {
  const transaction = (await open()).transaction(STORE, mode);
  const request = act(transaction.objectStore(STORE));
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve(request.result);
    transaction.onerror = () => reject(transaction.error);
    transaction.onabort = transaction.onerror;
  });
}

export async function all() {
  const chats = await run("readonly", (store) => store.getAll());
  return chats.sort((a, b) => b.changed - a.changed);
}

export const put = (chat) => run("readwrite", (store) => store.put(chat));
export const remove = (id) => run("readwrite", (store) => store.delete(id));

export function fresh(kind, system = "") {
  return { id: crypto.randomUUID(), kind, title: "", system, changed: Date.now(), forgotten: 0, turns: [] };
}

// A copy of a chat's first turns. The original stays as it is.
export function branch(chat, turns) {
  const copy = structuredClone(chat);
  const forgotten = Math.min(chat.forgotten, turns);
  return { ...copy, id: crypto.randomUUID(), changed: Date.now(), forgotten, turns: copy.turns.slice(0, turns) };
}

export const answer = (turn) => turn.answers[turn.shown];

// What the model gets: all turns that fit, the last without an answer.
export function messages(chat) {
  const turns = chat.turns.slice(chat.forgotten);
  const system = chat.system.trim() ? [{ role: "system", content: chat.system }] : [];
  return [...system, ...turns.flatMap((turn, index) => {
    const question = { role: "user", content: turn.prompt };
    if (index === turns.length - 1) return [question];
    return [question, { role: "assistant", content: answer(turn)?.text ?? "" }];
  })];
}
