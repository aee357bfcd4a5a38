// An NVIDIA H200 remembers where some 4,000 pages of 2 MB are; larger weights wait for each page to be looked up again
// (docs/kernels/matmul.md#pages). So whoever reads the first elements of a PAGE also reads a word AHEAD elements further. A parameter
// that is zero masks the word's bits, and the result is used, so that no compiler leaves the load out.

const PAGE = 1u << 19u;
const AHEAD = 1u << 22u;
