// The powers of two s[l] that scale the largest magnitude of line l of x to at least 2^14, unless they are known; and y[l, k] = x[l, k] /
// s[l] in f16, if y is bound. A workgroup owns TEAMS adjacent groups of WIDE lines; its threads stride along k.

override WORKGROUP: u32 = 128u;

// slots: as it stands this file is the f32 case of lines along k, to f32.
alias X = vec4<f32>;
const TEAMS = 1u; // adjacent groups of lines
const WIDE = 1u;  // lines of a group: 1 along k, 4 across
// A thread loads a line in pieces: EACH elements in QUADS quads.
const EACH = 4u;
const QUADS = 1u;
fn piece_at(j: u32) -> u32 { return 4u * j; } // the first element of piece j
fn quad_at(q: u32) -> u32 { return 0u; }      // from there to quad q
fn x_piece(at: u32) -> array<vec4<f32>, QUADS> { return array<vec4<f32>, QUADS>(x[at / 4u]); }
const KNOWN = 0u; // 1 if the scales are known; lines along k only
@group(0) @binding(2) var<storage, read_write> line_scales: array<f32>;
fn put_scale(line: u32, scale: f32) { line_scales[line] = scale; }
fn store(line: u32, source: u32, own: u32, by: vec4<f32>) {}
// end slots

struct Params {
    lines: u32,
    k: u32,
    x_offset: u32,
    x_line: u32, // strides of x and y
    x_k: u32,
    y_line: u32,
    y_k: u32,
}
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> x: array<X>;
var<workgroup> part: array<vec4<u32>, WORKGROUP>;
var<private> piece: array<vec4<f32>, QUADS>; // the thread's last one

// The bits of finite magnitudes, 0 for others: infinities and NaN survive any division.
fn magnitudes(v: vec4<f32>) -> vec4<u32> {
    let bits = bitcast<vec4<u32>>(v) & vec4<u32>(0x7fffffffu);
    return select(bits, vec4<u32>(), bits >= vec4<u32>(0x7f800000u));
}

// The exponents of the scales of the thread's lines.
fn exponents(thread: u32, source: u32, own: u32) -> vec4<u32> {
    var most = vec4<u32>();
    for (var j = own; j < p.k / EACH; j += WORKGROUP / TEAMS) {
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
    return max(most >> vec4<u32>(23u), vec4<u32>(15u)) - vec4<u32>(14u);
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
    let own = thread / TEAMS;
    var exponent: vec4<u32>;
    if KNOWN == 1u {
        exponent = vec4<u32>(bitcast<u32>(line_scales[line]) >> 23u);
    } else {
        exponent = exponents(thread, source, own);
    }
    if !live { return; }
    store(line, source, own, bitcast<vec4<f32>>((vec4<u32>(254u) - exponent) << vec4<u32>(23u)));
    if thread < TEAMS {
        let s = bitcast<vec4<f32>>(exponent << vec4<u32>(23u));
        for (var i = 0u; i < WIDE; i++) { put_scale(line + i, s[i]); }
    }
}
