// y[b, m, n] = sum over k of a[b, m, k] w[n, k] for few rows m and a quantized w, in integer arithmetic. A workgroup rounds its
// rows of a to 16 bits per block of W_BLOCK units, as the two bytes that dot4I8Packed takes, and holds them in workgroup memory. A
// thread group of THREAD_GROUP threads owns ROWS rows of OWN adjacent columns of y at a time, in p.rounds rounds; a thread
// accumulates every THREAD_GROUP-th span of W_SPAN units of 32.

override WORKGROUP: u32 = 256u;
override ONE_BLOCK: u32 = 0u; // 1 for a single block of rows
override THREAD_GROUP: u32 = 32u; // a power of two; with subgroups, at most the smallest subgroup size
override CHUNK: u32 = 192u; // units per row in workgroup memory, a multiple of THREAD_GROUP * W_SPAN

// slots: as it stands this file is the f32 case of eight-bit q with one scale and no subgroups.
alias A = vec4<f32>;
alias B = vec4<u32>;
alias Y = f32;
const ROWS = 1u;
const COLS = 2u;
const OWN = 2u; // columns of y; for a pair, half of COLS: columns of b, followed by columns of c
const W_SPAN = 1u; // adjacent units that are loaded together
const TREE = true;
const W_SHIFTED = false;
const W_HALVES = false; // each half of a unit has its own scale
const W_WHOLE = false;  // accumulators of a span are integers
struct Parts { low: vec4<u32>, high: vec4<u32>, scale: vec2<i32>, shift: vec2<i32>, factor: vec2<f32> }
struct Raw { q: array<vec4<u32>, 2> }
fn thread_group_sum(v: vec4<f32>, lane: u32) -> vec4<f32> { return v; }
struct Matrix { start: u32, n: u32, stride: u32 }
struct Place { which: u32, batch: u32, m0: u32, group: u32, a: u32, w: Matrix }
fn place(group: u32) -> Place {
    return Place(0u, 0u, 0u, group, p.a_offset, Matrix(p.b_offset, p.n, p.b_n));
}
fn load(which: u32, w: Matrix, n: u32, s: u32) -> Spans {
    var spans: Spans;
    for (var c = 0u; c < COLS; c++) { spans[c] = w_load(unit_of(w, n, c, s)); }
    return spans;
}
fn keep(thread: u32, first: u32, count: u32, rows: array<u32, ROWS>) {
    for (var h = thread; h < 2u * count; h += WORKGROUP) {
        let at = rows[0] / 4u + 8u * first + 4u * h;
        let q = array<vec4<i32>, 4>(vec4<i32>(a[at]), vec4<i32>(a[at + 1u]), vec4<i32>(a[at + 2u]), vec4<i32>(a[at + 3u]));
        put(0u, h / 2u, h % 2u, q);
        act_scale[slot(0u, h / 2u)] = 1.0;
    }
}
fn w_load(u: u32) -> Raw { return Raw(array<vec4<u32>, 2>(b[2u * u], b[2u * u + 1u])); }
fn w_unpack(r: Raw, u: u32, j: u32) -> Parts {
    return Parts(r.q[0], r.q[1], vec2<i32>(1i), vec2<i32>(), vec2<f32>(1.0));
}
fn add_span(acc: ptr<function, array<vec4<f32>, ROWS>>, now: Spans, w: Matrix, n: u32, s: u32, at_s: u32) {
    var sums = Sums();
    let factors = add_unit(&sums, now, w, n, s, at_s, 0u);
    add_sums(acc, sums, factors, s * W_SPAN);
}
fn unit_of(w: Matrix, n: u32, c: u32, s: u32) -> u32 { return unit_at(w, n + c, s); }
fn y_put_of(which: u32, at: u32, count: u32, v: vec4<f32>) {
    for (var i = 0u; i < count; i++) { y[at + i] = v[i]; }
}
struct Params { m: u32, n: u32, k: u32, batch: u32, a_offset: u32, b_offset: u32, a_m: u32, b_n: u32, rounds: u32 }
// end slots

@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> a: array<A>;
@group(0) @binding(2) var<storage, read> b: array<B>;
@group(0) @binding(3) var<storage, read_write> y: array<Y>;

const W_BLOCK = select(1u, W_SPAN, W_WHOLE); // units that share a scale of a

// The rounded activations: halves of units, high bytes then low bytes; the scale of a unit; the integer sums of the halves.
var<workgroup> halves: array<vec4<u32>, 4u * ROWS * CHUNK>;
var<workgroup> act_scale: array<f32, ROWS * CHUNK>;
var<workgroup> totals: array<i32, select(1u, 2u * ROWS * CHUNK, W_SHIFTED)>;
var<workgroup> part: array<vec4<f32>, select(1u, WORKGROUP, TREE)>;

// The slot of unit u of row r: units that a thread group reads at the same time are adjacent.
fn slot(r: u32, u: u32) -> u32 { return r * CHUNK + u % W_SPAN * (CHUNK / W_SPAN) + u / W_SPAN; }

// Stores half a unit of row r to workgroup memory.
fn put(r: u32, u: u32, half: u32, q: array<vec4<i32>, 4>) {
    let at = half * ROWS * CHUNK + slot(r, u);
    halves[at] = vec4<u32>(high_bytes(q[0]), high_bytes(q[1]), high_bytes(q[2]), high_bytes(q[3]));
    halves[2u * ROWS * CHUNK + at] = vec4<u32>(pack4xI8(q[0]), pack4xI8(q[1]), pack4xI8(q[2]), pack4xI8(q[3]));
    let sum = q[0] + q[1] + q[2] + q[3];
    if W_SHIFTED { totals[at] = sum.x + sum.y + sum.z + sum.w; }
}

// The high bytes that complement the signed low bytes.
fn high_bytes(q: vec4<i32>) -> u32 { return pack4xI8((q + vec4<i32>(128i)) >> vec4<u32>(8u)); }

fn dot_half(q: vec4<u32>, x: vec4<u32>) -> i32 {
    return dot4I8Packed(q.x, x.x) + dot4I8Packed(q.y, x.y) + dot4I8Packed(q.z, x.z) + dot4I8Packed(q.w, x.w);
}

alias Spans = array<Raw, COLS>;

// The first unit of span s of row n of b, clamped to the last row.
fn unit_at(w: Matrix, n: u32, s: u32) -> u32 {
    return ((w.start + min(n, w.n - 1u) * w.stride) / (32u * W_SPAN) + s) * W_SPAN;
}

// Accumulators, with a lane per column: products with high bytes, which count 256 times, and with low bytes; shifts times sums of a.
struct Sums { high: array<vec4<i32>, ROWS>, low: array<vec4<i32>, ROWS>, shift: array<vec4<i32>, ROWS> }

// Accumulates unit j of span s in workgroup memory with span at_s of the rows of b; returns the factors of the columns.
fn add_unit(sums: ptr<function, Sums>, now: Spans, w: Matrix, n: u32, s: u32, at_s: u32, j: u32) -> array<vec2<f32>, COLS> {
    var right: array<Parts, COLS>;
    var factors: array<vec2<f32>, COLS>;
    for (var c = 0u; c < COLS; c++) {
        right[c] = w_unpack(now[c], unit_of(w, n, c, at_s), j);
        factors[c] = right[c].factor;
    }
    for (var r = 0u; r < ROWS; r++) {
        let low = slot(r, s * W_SPAN + j);
        let high = ROWS * CHUNK + low;
        let below = 2u * ROWS * CHUNK;
        let total = vec2<i32>(totals[low], totals[high]);
        for (var c = 0u; c < COLS; c++) {
            let q = right[c];
            if W_HALVES {
                (*sums).high[r][c] += q.scale.x * dot_half(q.low, halves[low]) + q.scale.y * dot_half(q.high, halves[high]);
                (*sums).low[r][c] += q.scale.x * dot_half(q.low, halves[below + low])
                    + q.scale.y * dot_half(q.high, halves[below + high]);
                if W_SHIFTED { (*sums).shift[r][c] += q.shift.x * total.x + q.shift.y * total.y; }
            } else {
                (*sums).high[r][c] += q.scale.x * (dot_half(q.low, halves[low]) + dot_half(q.high, halves[high]));
                (*sums).low[r][c] += q.scale.x * (dot_half(q.low, halves[below + low]) + dot_half(q.high, halves[below + high]));
                if W_SHIFTED { (*sums).shift[r][c] += q.shift.x * (total.x + total.y); }
            }
        }
    }
    return factors;
}

// Adds the accumulators of the block of a that starts with unit u in workgroup memory.
fn add_sums(acc: ptr<function, array<vec4<f32>, ROWS>>, sums: Sums, factors: array<vec2<f32>, COLS>, u: u32) {
    for (var r = 0u; r < ROWS; r++) {
        let step = act_scale[slot(r, u)];
        for (var c = 0u; c < COLS; c++) {
            var v: f32;
            if W_WHOLE {
                v = 256.0 * f32(sums.high[r][c]) + f32(sums.low[r][c]);
            } else {
                v = f32(256i * sums.high[r][c] + sums.low[r][c]);
            }
            v *= factors[c].x;
            if W_SHIFTED { v += factors[c].y * f32(sums.shift[r][c]); }
            (*acc)[r][c] += step * v;
        }
    }
}

@compute @workgroup_size(WORKGROUP)
fn main(
    @builtin(local_invocation_index) thread: u32,
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
) {
    let at = place(id.y * groups.x + id.x);
    if at.batch >= p.batch { return; }
    // Rows and columns past the edge repeat the last one; their results are not stored.
    var rows: array<u32, ROWS>;
    for (var r = 0u; r < ROWS; r++) { rows[r] = at.a + min(at.m0 + r, p.m - 1u) * p.a_m; }

    let stride = WORKGROUP / THREAD_GROUP * OWN;
    let lane = thread % THREAD_GROUP;
    let units = p.k / 32u;
    var n0 = at.group * p.rounds * stride + thread / THREAD_GROUP * OWN;
    keep(thread, 0u, min(CHUNK, units), rows);
    workgroupBarrier();
    for (var round = 0u; round < p.rounds; round++) {
        var acc = array<vec4<f32>, ROWS>(); // of COLS columns
        for (var first = 0u; first < units; first += CHUNK) {
            let count = min(CHUNK, units - first);
            if first > 0u || (round > 0u && units > CHUNK) {
                workgroupBarrier();
                keep(thread, first, count, rows);
                workgroupBarrier();
            }
            for (var s = lane; s < count / W_SPAN; s += THREAD_GROUP) {
                let at_s = first / W_SPAN + s;
                let now = load(at.which, at.w, n0, at_s);
                add_span(&acc, now, at.w, n0, s, at_s);
            }
        }

        for (var r = 0u; r < ROWS; r++) {
            var sum = thread_group_sum(acc[r], lane);
            if TREE {
                workgroupBarrier();
                part[thread] = sum;
                workgroupBarrier();
                for (var half = THREAD_GROUP / 2u; half > 0u; half /= 2u) {
                    if lane < half { part[thread] += part[thread + half]; }
                    workgroupBarrier();
                }
                sum = part[thread];
            }
            if lane == 0u && at.m0 + r < p.m && n0 < at.w.n {
                y_put_of(at.which, (at.batch * p.m + at.m0 + r) * at.w.n + n0, min(OWN, at.w.n - n0), sum);
            }
        }
        n0 += stride;
    }
}
