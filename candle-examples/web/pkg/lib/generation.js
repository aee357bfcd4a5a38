// The pieces of a text as an async iterator. `stop` is called if the consumer leaves early.
export class Generation {
  // Pieces so far, also those that are empty since a character is not complete.
  count = 0;
  #pieces = [];
  #wake = () => {};
  #ended = false;
  #stop;

  // `run(show)` returns a promise of the figures.
  constructor(run, stop, signal) {
    this.#stop = stop;
    signal?.addEventListener("abort", stop);
    const show = (piece) => {
      this.count += 1;
      if (piece) this.#pieces.push(piece);
      this.#wake();
    };
    this.figures = run(show).finally(() => {
      this.#ended = true;
      signal?.removeEventListener("abort", stop);
      this.#wake();
    });
    // Whoever reads the pieces gets the error, too.
    this.figures.catch(() => {});
  }

  [Symbol.asyncIterator]() {
    return this;
  }

  // Pieces that arrived since the last call are joined.
  async next() {
    while (!this.#pieces.length) {
      if (this.#ended) {
        await this.figures;
        return { done: true, value: undefined };
      }
      await new Promise((resolve) => { this.#wake = resolve; });
    }
    return { done: false, value: this.#pieces.splice(0).join("") };
  }

  async return() {
    if (!this.#ended) this.#stop();
    await this.figures.catch(() => {});
    return { done: true, value: undefined };
  }
}

// Texts are continued by text models and answered by chat models.
export function messages(prompt) {
  return typeof prompt === "string" ? [{ role: "user", content: prompt }] : prompt;
}
