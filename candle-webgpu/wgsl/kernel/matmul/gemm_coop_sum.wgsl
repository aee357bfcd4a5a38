// Adds up the parts of the tiles that gemm_coop divides along k (gemm_coop_split_k.wgsl), and stores them as it would. A thread owns a
// quad of y.

override WORKGROUP: u32 = 128u;

// slots: as it stands this file is the case of 128 x 128 and y of whole quads of f32.
alias Y = vec4<f32>;
struct Params { m: u32, n: u32, groups: u32, rows: u32, blocks: u32, rounds: u32 }
const BM = 128u;
const BN = 128u;
const OWN = 128u; // columns of y: half of BN for a pair of matrices
fn tile_at(tile: u32) -> vec2<u32> { return vec2<u32>(tile % p.rows * BM, tile / p.rows * OWN); }
alias Results = vec4<f32>;
fn results(m: u32, n: u32, at: u32) -> Results { return y_quad(at); }
fn store(row: u32, n: u32, v: Results) { y[(row * p.n + n) / 4u] = v; }
// end slots

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> parts: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<Y>;
var<private> totals: array<vec4<f32>, 2>;

// Stands for gemm_coop's y_tile, whose second half belongs to the second matrix of a pair.
fn y_quad(at: u32) -> vec4<f32> { return totals[min(at, 1u)]; }

@compute @workgroup_size(WORKGROUP)
fn main(@builtin(local_invocation_index) thread: u32, @builtin(workgroup_id) id: vec3<u32>, @builtin(num_workgroups) count: vec3<u32>) {
    let quad = (id.y * count.x + id.x) * WORKGROUP + thread;
    let i = quad / (BM * OWN / 4u);
    let divided = p.groups - p.blocks;
    if i >= divided { return; }
    let row = quad / (OWN / 4u) % BM;
    let col = quad % (OWN / 4u) * 4u;
    for (var part = 0u; part < p.rounds; part++) {
        let at = ((part * divided + i) * BM + row) * BN + col;
        totals[0] += parts[at / 4u];
        totals[1] += parts[(at + BN - OWN) / 4u];
    }
    let m = tile_at(p.blocks + i).x + row;
    let n = tile_at(p.blocks + i).y + col;
    if m < p.m && n < p.n { store(m, n, results(m, n, 0u)); }
}
