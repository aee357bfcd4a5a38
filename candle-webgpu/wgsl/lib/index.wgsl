// id_of_<dtype>(v): an index of any integer dtype as the words of an i64. The greatest value of a dtype means "no element".

const ID_NONE = vec2<u32>(0xffffffffu, 0x7fffffffu);

fn id_of_u8(v: u32) -> vec2<u32> { return select(vec2<u32>(v, 0u), ID_NONE, v == 0xffu); }
fn id_of_u32(v: u32) -> vec2<u32> { return select(vec2<u32>(v, 0u), ID_NONE, v == 0xffffffffu); }
fn id_of_i16(v: i32) -> vec2<u32> { return select(vec2<u32>(bitcast<u32>(v), bitcast<u32>(v >> 31u)), ID_NONE, v == 32767i); }
fn id_of_i32(v: i32) -> vec2<u32> { return select(vec2<u32>(bitcast<u32>(v), bitcast<u32>(v >> 31u)), ID_NONE, v == 2147483647i); }
fn id_of_i64(v: vec2<u32>) -> vec2<u32> { return v; }
fn id_is_none(id: vec2<u32>) -> bool { return all(id == ID_NONE); }
fn id_is_within(id: vec2<u32>, size: u32) -> bool { return id.y == 0u && id.x < size; }
