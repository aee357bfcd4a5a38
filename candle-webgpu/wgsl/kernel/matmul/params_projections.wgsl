// The parameters of a matmul or of projections, for gemv_dot and rms_norm_gemv.

// slots: nothing.
// end slots

// The parameters of a fused epilogue; all zero without one.
struct Epilogue {
    zero: u32,
    step: u32, // of a pair: offset of c minus offset of b, in elements
    scalars: array<vec4<u32>, 2>,
    reads: array<vec4<u32>, 2>, // of each operand: offset, period in elements, index of the last element of y
}
struct Params {
    m: u32,
    n: u32,
    k: u32,
    batch: u32,
    groups: u32, // workgroups per matrix, or per block of rows if there are several
    rows: u32,   // tiles along m; in a mixture of experts, the number of matrices in b
    a_offset: u32,
    b_offset: u32,
    a_m: u32,
    a_k: u32,
    b_k: u32,
    b_n: u32,
    dims: vec4<u32>, // batch dims, innermost first
    a_batch: vec4<u32>, // with a fused rms_norm, of one row: offset of alpha, bits of eps and of 1 / k
    b_batch: vec4<u32>,
    op: u32,
    blocks: u32, // blocks of ROWS rows
    rounds: u32, // column blocks of a workgroup, one after the other
    epilogue: Epilogue,
    // For projections, which are matmuls with the same a: the first workgroup of each; for each, the workgroups per block of rows, n,
    // b_offset and b_n.
    starts: vec4<u32>,
    products: array<vec4<u32>, 3>,
}
