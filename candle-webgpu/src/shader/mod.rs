//! Links shader text and compiles it to pipelines.

pub(crate) mod compile;
pub(crate) mod disk_cache;
mod link;
mod operand;
mod params;
pub(crate) mod pipeline_cache;
#[cfg_attr(target_arch = "wasm32", path = "precompile_web.rs")]
pub(crate) mod precompile;
mod reachable;
mod specialization;
pub(crate) mod steps;
mod unroll;

pub(crate) use link::{function, renamed};
pub use link::{link, link_for, Target, Text, Traits};
pub(crate) use params::{params, Param, PARAMS_SLOT};
pub use params::{Field, ParamsLayout};
pub use specialization::{read, read_bound_rw, write, Access, Binding, Kernel, Specialization};
pub use steps::{Arg, Step};
