// The eight elements that a thread of gemv_k loads at a time.

// NVIDIA's GPUs look up where a page of 2 MB is when it is first read, and remember some 4,000 pages (docs/kernels/matmul.md#pages). So a
// thread that starts a page reads from one AHEAD elements further: `{n}_ahead` returns zero, in bits that depend on what was read.
const PAGE = 1u << 19u;
const AHEAD = 1u << 22u;
struct Eight { low: vec4<f32>, high: vec4<f32> }
