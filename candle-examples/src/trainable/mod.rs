//! Models made of differentiable ops, for training.

pub mod llama;
pub mod resnet;
