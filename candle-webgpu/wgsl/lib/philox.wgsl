// Philox4x32-10, a counter-based generator (Salmon et al., SC 2011). Equal seeds and counters give equal numbers on every adapter.

fn philox_wide(a: u32, b: u32) -> vec2<u32> {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let mid = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let cross = (a & 0xffffu) * (b >> 16u) + (mid & 0xffffu);
    return vec2<u32>((cross << 16u) | (low & 0xffffu), (a >> 16u) * (b >> 16u) + (mid >> 16u) + (cross >> 16u));
}

fn philox(seed: vec2<u32>, counter: vec2<u32>) -> vec4<u32> {
    var key = seed;
    var c = vec4<u32>(counter, 0u, 0u);
    for (var round = 0u; round < 10u; round++) {
        let a = philox_wide(0xd2511f53u, c.x);
        let b = philox_wide(0xcd9e8d57u, c.z);
        c = vec4<u32>(b.y ^ c.y ^ key.x, b.x, a.y ^ c.w ^ key.y, a.x);
        key += vec2<u32>(0x9e3779b9u, 0xbb67ae85u);
    }
    return c;
}
