//! The families of cases. main.rs runs them natively, tests/web in a browser.

pub mod attention;
pub mod case;
pub mod cast;
pub mod comparison;
pub mod conv;
pub mod copy;
pub mod elementwise;
pub mod grid;
pub mod index;
pub mod large;
pub mod large_nn;
pub mod matmul;
pub mod nn;
pub mod peers;
pub mod pool;
pub mod quant;
pub mod quant_fused;
pub mod random;
pub mod ranks;
pub mod raw;
pub mod reduce;
pub mod rewrite;
#[path = "../shared/mod.rs"]
pub mod shared;
pub mod sort;
pub mod upstream;

use case::{Case, Cases};
pub use shared::{bound, input, ops};

pub fn cases() -> Vec<Case> {
    let mut all = Cases::default();
    comparison::add(&mut all);
    elementwise::add(&mut all);
    cast::add(&mut all);
    copy::add(&mut all);
    reduce::add(&mut all);
    index::add(&mut all);
    matmul::add(&mut all);
    sort::add(&mut all);
    random::add(&mut all);
    raw::add(&mut all);
    nn::add(&mut all);
    attention::add(&mut all);
    rewrite::add(&mut all);
    conv::add(&mut all);
    pool::add(&mut all);
    quant::add(&mut all);
    quant_fused::add(&mut all);
    peers::add(&mut all);
    upstream::add(&mut all);
    grid::add(&mut all);
    ranks::add(&mut all);
    large::add(&mut all);
    large_nn::add(&mut all);
    all.0
}
