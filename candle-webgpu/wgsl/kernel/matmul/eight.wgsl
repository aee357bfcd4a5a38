// The eight elements that a thread of gemv_k loads at a time.

struct Eight { low: vec4<f32>, high: vec4<f32> }
