// Calls functions of a worker.
import { worker } from "./trusted.js";

export class Caller {
  #worker = worker(new URL("./worker.js", import.meta.url));
  #calls = new Map();
  #next = 0;
  #ended = null;

  constructor() {
    this.#worker.onmessage = ({ data }) => {
      const call = this.#calls.get(data.id);
      if (!call) return;
      if ("result" in data) call.resolve(data.result);
      else if (data.error) call.reject(Object.assign(new Error(data.error.message), { name: data.error.name ?? "Error" }));
      else call.heard(data);
    };
    this.#worker.onerror = (event) => this.#end(new Error(`the worker failed: ${event.message ?? "it did not start"}`));
  }

  #end(error) {
    this.#ended = error;
    for (const { reject } of this.#calls.values()) reject(error);
    this.#calls.clear();
  }

  // `heard` gets the messages before the result.
  call(call, data = {}, heard = () => {}) {
    if (this.#ended) return Promise.reject(this.#ended);
    const id = this.#next++;
    const result = new Promise((resolve, reject) => this.#calls.set(id, { resolve, reject, heard }));
    this.#worker.postMessage({ ...data, id, call });
    return result.finally(() => this.#calls.delete(id));
  }

  send(message) {
    this.#worker.postMessage(message);
  }

  close(error = new DOMException("the model was closed", "AbortError")) {
    this.#worker.terminate();
    this.#end(error);
  }
}
