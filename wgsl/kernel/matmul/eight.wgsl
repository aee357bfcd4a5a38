// Eight elements, as gemv_k takes them at a time.

struct Eight { low: vec4<f32>, high: vec4<f32> }
