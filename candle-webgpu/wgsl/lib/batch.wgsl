// bases(batch): where the operands of a matmul begin, for a batch of up to four dims.

// slots: the parameters of a matmul.
struct Params { a_offset: u32, b_offset: u32, batch: u32, dims: vec4<u32>, a_batch: vec4<u32>, b_batch: vec4<u32> }
@group(0) @binding(0) var<uniform> p: Params;
// end slots

fn bases(batch: u32) -> vec2<u32> {
    var at = vec2<u32>(p.a_offset, p.b_offset);
    // Eight divisions take as long as a small matmul.
    if p.batch > 1u {
        var rest = batch;
        for (var d = 0u; d < 4u; d++) {
            let i = rest % p.dims[d];
            rest /= p.dims[d];
            at += i * vec2<u32>(p.a_batch[d], p.b_batch[d]);
        }
    }
    return at;
}
