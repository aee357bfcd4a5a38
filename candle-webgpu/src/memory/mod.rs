//! Values, their memory, and the views and binding ranges through which kernels access them.

pub(crate) mod binding_range;
pub(crate) mod buffer;
pub(crate) mod growable;
pub(crate) mod merge;
pub(crate) mod pool;
pub(crate) mod split;
pub(crate) mod view;
