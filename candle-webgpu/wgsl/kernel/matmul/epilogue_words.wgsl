// e_four(at): an epilogue's operand for elements at .. at + OWN of y, clamped to the last element of y.

// slots: stand-ins for what the kernel and its linker provide.
alias EL = vec4<f32>;
const OWN = 4u;
struct Epilogue { reads: array<vec4<u32>, 2> }
struct Params { epilogue: Epilogue }
@group(0) @binding(0) var<uniform> p: Params;
@group(0) @binding(1) var<storage, read> e: array<f32>;
fn e_get(i: u32) -> f32 { return e[i]; }
// end slots

fn e_four(at: u32) -> EL {
    let read = p.epilogue.reads[0];
    let last = vec4<u32>(min(at + OWN - 1u, read.z));
    var i = min(vec4<u32>(at) + vec4<u32>(0u, 1u, 2u, 3u), last);
    // Divisions take long, and most operands have as many elements as y.
    if last.x >= read.y { i = i % read.y; }
    i += read.x;
    return EL(e_get(i.x), e_get(i.y), e_get(i.z), e_get(i.w));
}
