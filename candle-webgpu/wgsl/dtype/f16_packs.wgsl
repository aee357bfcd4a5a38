// f16 on adapters whose `pack2x16float` rounds as f16.wgsl does, as a self-test checks when a device is opened.

fn f16_get(word: u32, lane: u32) -> f32 { return unpack2x16float(word >> (16u * lane)).x; }

fn f16_unpack(quad: vec2<u32>) -> vec4<f32> {
    return vec4<f32>(unpack2x16float(quad.x), unpack2x16float(quad.y));
}

fn f16_pack(v: vec4<f32>) -> vec2<u32> { return vec2<u32>(pack2x16float(v.xy), pack2x16float(v.zw)); }

fn f16_word(v: vec4<f32>) -> u32 { return pack2x16float(v.xy); }

fn f16_set(word: u32, lane: u32, v: f32) -> u32 {
    let shift = 16u * lane;
    return (word & ~(0xffffu << shift)) | ((pack2x16float(vec2<f32>(v, 0.0)) & 0xffffu) << shift);
}
