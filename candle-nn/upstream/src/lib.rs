//! Only here because cargo wants a target: see Cargo.toml.
