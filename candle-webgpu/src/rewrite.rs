//! Which rewritings of recorded ops are on.

use crate::error::{Error, Result};

/// Rewritings of recorded ops to do without, separated by commas, each behind a minus: `-copies`.
pub const REWRITE_VAR: &str = "CANDLE_WEBGPU_REWRITE";

/// The rewritings there are.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Rewrites {
    /// Copies that follow each other in equal steps become one.
    pub copies: bool,
}

impl Rewrites {
    /// All of them but those that the environment turns off.
    pub fn from_env() -> Result<Self> {
        Self::parse(&std::env::var(REWRITE_VAR).unwrap_or_default())
    }

    fn parse(list: &str) -> Result<Self> {
        let mut rewrites = Rewrites { copies: true };
        for name in list.split(',').map(str::trim).filter(|n| !n.is_empty()) {
            match name {
                "-copies" => rewrites.copies = false,
                _ => {
                    return Err(Error::UnknownFeature {
                        name: name.to_string(),
                        known: "-copies".to_string(),
                    })
                }
            }
        }
        Ok(rewrites)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() -> Result<()> {
        assert!(Rewrites::parse("")?.copies);
        assert!(!Rewrites::parse(" -copies,")?.copies);
        assert!(Rewrites::parse("copies").is_err());
        Ok(())
    }
}
