// y[l, k] = x[l, k] / s[l] in f16, where the power of two s[l] scales the largest magnitude of line l to at least 2^14. Also
// stores s. A workgroup owns TEAMS adjacent groups of WIDE lines; its threads stride along k.

override WORKGROUP: u32 = 128u;

// slots: as it stands this file is the f32 case of lines along k, to f32.
alias X = vec4<f32>;
alias Y = vec4<f32>;
alias YL = vec4<f32>;
const TEAMS = 1u; // adjacent groups of lines
const WIDE = 1u;  // lines of a group: 1 along k, 4 across
// A thread loads a line in pieces: EACH elements in QUADS quads.
const EACH = 4u;
const QUADS = 1u;
fn piece_at(j: u32) -> u32 { return 4u * j; } // the first element of piece j
fn quad_at(q: u32) -> u32 { return 0u; }      // from there to quad q
fn x_piece(at: u32) -> array<vec4<f32>, QUADS> { return array<vec4<f32>, QUADS>(x[at / 4u]); }
fn y_quad_put(q: u32, v: YL) { y[q] = v; }
// end slots

struct Params {
    lines: u32,
    k: u32,
    x_offset: u32,
    x_line: u32, // strides of x and y
    x_k: u32,
    y_line: u32,
    y_k: u32,
    first: u32, // offset of s in `line_scales`
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
@group(0) @binding(2) var<storage, read_write> y: array<Y>;
@group(0) @binding(3) var<storage, read_write> line_scales: array<f32>;
var<workgroup> part: array<vec4<u32>, WORKGROUP>;

// The bits of finite magnitudes, 0 for others: infinities and NaN survive any division.
fn magnitudes(v: vec4<f32>) -> vec4<u32> {
    let bits = bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu);
    return select(bits, vec4<u32>(), bits >= vec4<u32>(0x7f800000u));
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let first = (id.y * groups.x + id.x) * TEAMS * WIDE;
    if first >= p.lines { return; }
    let line = first + thread % TEAMS * WIDE;
    let live = line < p.lines;
    let source = p.x_offset + min(line, p.lines - WIDE) * p.x_line;
    let threads = WORKGROUP / TEAMS; // of a line
    let pieces = p.k / EACH;
    let own = thread / TEAMS;
    var piece: array<vec4<f32>, QUADS>;
    var most = vec4<u32>();
    for (var j = own; j < pieces; j += threads) {
        piece = x_piece(source + piece_at(j) * p.x_k);
        for (var q = 0u; q < QUADS; q++) { most = max(most, magnitudes(piece[q])); } // unroll
    }
    part[thread] = most;
    workgroupBarrier();
    for (var half = WORKGROUP / 2u; half >= TEAMS; half /= 2u) {
        if thread < half { part[thread] = max(part[thread], part[thread + half]); }
        workgroupBarrier();
    }
    most = part[thread % TEAMS];
    if WIDE == 1u { most = vec4<u32>(max(max(most.x, most.y), max(most.z, most.w))); }

    let exponent = max(most >> vec4<u32>(23u), vec4<u32>(15u)) - vec4<u32>(14u);
    let by = bitcast<vec4<f32>>((vec4<u32>(254u) - exponent) << vec4<u32>(23u));
    if !live { return; }
    // Backwards, since the last piece is still in registers.
    for (var left = (pieces + threads - 1u - own) / threads; left > 0u; left--) {
        let k = piece_at(own + (left - 1u) * threads);
        if own + left * threads < pieces { piece = x_piece(source + k * p.x_k); }
        let to = line * p.y_line + k * p.y_k;
        for (var q = 0u; q < QUADS; q++) { y_quad_put((to + quad_at(q)) / 4u, piece[q] * by); } // unroll
    }
    if thread < TEAMS {
        let s = bitcast<vec4<f32>>(exponent << vec4<u32>(23u));
        for (var i = 0u; i < WIDE; i++) { line_scales[p.first + line + i] = s[i]; }
    }
}
