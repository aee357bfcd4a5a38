// An NVIDIA H200 remembers where some 4,000 pages of 2 MB are; models with more weights wait for each page to be looked up again
// (docs/kernels/gemv.md#pages). So a thread whose column of a matrix is the first of PAGE elements also reads a word AHEAD elements
// further. A parameter that is zero masks the word's bits, and the result is used, so that no compiler leaves the load out.

const PAGE = 1u << 19u; // 1 MB of 16-bit elements
const AHEAD = 1u << 22u;
