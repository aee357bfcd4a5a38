/** A URL, or a file from an input, a drop or `fetch`. */
export type Part = string | URL | Blob;

/**
 * The files of a model: one `.gguf`; the `.safetensors` with `config.json`, `tokenizer.json` and, if there are any,
 * `generation_config.json`, `tokenizer_config.json` and `chat_template.jinja`; or a llama2.c `.bin` with its
 * `tokenizer.bin`. The URL of a folder (it ends with `/`) stands for its safetensors files. In Node and Deno, a
 * string without `https://` is a path.
 */
export type Source = Part | Part[];

export type Kind = "chat" | "text" | "embed";

/** What a model is, and the bytes that it needs. */
export interface Facts {
  format: "gguf" | "safetensors" | "llama2c";
  kind: Kind;
  name?: string;
  architecture: string;
  parameters: number;
  /** The most tokens of a text. */
  context: number;
  weights: number;
  /** The largest tensor. */
  largest: number;
  /** The KV cache of one token. */
  per_token: number;
}

/** The GPU. The browser decides what it tells. */
export interface Adapter {
  name: string;
  kind: string;
  features: string[];
  subgroup?: [number, number];
  max_buffer_size: number;
  max_storage_buffer_binding_size: number;
  max_storage_buffers: number;
  max_workgroup_storage: number;
  /** GPU memory in use. */
  allocated_bytes: number;
}

export interface Progress {
  text: string;
  /** Bytes done and, if known, in all. */
  got?: number;
  total?: number;
}

export interface LoadOptions {
  /** Default: `webgpu` if the system has an adapter, else `cpu`. */
  device?: "webgpu" | "cpu";
  /** Keep downloads and files in the browser's storage (OPFS). Default: true. */
  keep?: boolean;
  /** The name in the list of kept models. */
  name?: string;
  onProgress?: (progress: Progress) => void;
  /** Called before the weights are downloaded (if the server supports ranges) or read; `false` ends `load` with an error. */
  check?: (facts: Facts, adapter: Adapter | null) => boolean | Promise<boolean>;
  signal?: AbortSignal;
}

export interface Message {
  role: "system" | "user" | "assistant";
  content: string;
}

export interface GenerateOptions {
  /** The most tokens to generate. Default: 256. */
  maxTokens?: number;
  /** 0, the default, always takes the likeliest token. */
  temperature?: number;
  topP?: number;
  seed?: number;
  signal?: AbortSignal;
}

export interface Figures {
  prompt: number[];
  ids: number[];
  stop: "end" | "tokens" | "context" | "interrupted";
  /** Tokens of the prompt that were in the KV cache. */
  reused: number;
  /** The oldest questions, with their answers, that were dropped to fit the context. */
  forgotten: number;
  first_token_ms: number;
  prompt_rate: number;
  /** Tokens per second after the first. */
  decode_rate?: number;
}

/** The pieces of a text. Leaving the loop stops the model. */
export interface Generation extends AsyncIterableIterator<string> {
  /** Pieces so far, one per token. The iterator joins those that arrive between two steps of the loop. */
  readonly count: number;
  /** Known when the text has ended. */
  readonly figures: Promise<Figures>;
}

export interface Model {
  /** The name that it is kept under, in browsers. */
  readonly name?: string;
  readonly facts: Facts;
  readonly adapter: Adapter | null;
  /** The key in `kept()`, if the model is kept. */
  readonly key?: string;
  /** Why it is not kept, if `keep` was wanted. */
  readonly notKept?: string;
  /** Reading the weights took so long. */
  readonly ms?: number;
  /** Answers a chat, or continues a text. One generation at a time. */
  generate(prompt: string | Message[], options?: GenerateOptions): Generation;
  /** A unit vector for each text. Needs a BERT model. */
  embed(texts: string[]): Promise<Float32Array[]>;
  /** Frees the model and its memory. */
  close(): void;
}

export function load(source: Source, options?: LoadOptions): Promise<Model>;

export interface Kept {
  key: string;
  name: string;
  bytes: number;
  /** False if a download was interrupted; `load` continues it. */
  complete: boolean;
  /** When it was kept, in ms since 1970. */
  added: number;
  /** To `load` it again. */
  source: Source;
}

/** The models in the browser's storage. Empty in Node and Deno. */
export function kept(): Promise<Kept[]>;
export function remove(key: string): Promise<void>;
