// Four elements of i64 or f64, in storage and in registers. One alias for both: naga compares arrays by the spelling of their element, and
// its HLSL writer makes a constructor for each alias, which DXC refuses if two have the same element.
alias PairX4 = array<vec2<u32>, 4>;
