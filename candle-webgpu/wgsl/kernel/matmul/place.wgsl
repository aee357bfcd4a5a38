// Which part of its results a workgroup of gemv_k, gemv_projections or gemv_dot owns.

// slots: nothing.
// end slots

// A matrix of b: its offset, its number of rows, and their stride.
struct Matrix { start: u32, n: u32, stride: u32 }
// `which` of the projections and `batch` of the batch, the rows from m0 on, and the index of the workgroup among those of the same
// rows. `a` is the offset of the matmul's a.
struct Place { which: u32, batch: u32, m0: u32, group: u32, a: u32, w: Matrix }
