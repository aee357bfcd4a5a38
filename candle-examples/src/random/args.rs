//! Names on the command line.

use super::{Preset, Quant, PRESETS, QUANTS};
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// Parses the name of one of [`PRESETS`].
pub fn shape() -> impl TypedValueParser<Value = &'static Preset> {
    named(PRESETS, |preset| preset.name)
}

/// Parses the name of one of [`QUANTS`].
pub fn quant() -> impl TypedValueParser<Value = &'static Quant> {
    named(QUANTS, |quant| quant.name)
}

fn named<T: Sync>(
    rows: &'static [T],
    name: fn(&T) -> &'static str,
) -> impl TypedValueParser<Value = &'static T> {
    PossibleValuesParser::new(rows.iter().map(name)).try_map(move |given| {
        let found = rows.iter().find(|row| name(row) == given);
        found.ok_or("unknown")
    })
}
