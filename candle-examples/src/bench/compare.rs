//! Compares two saved runs.

use crate::bench::results::{Results, Row};
use crate::bench::table::figures;
use anyhow::{ensure, Result};
use std::fmt::Write;

/// The rows of both files, the largest slowdown first. Rows that fail only in the new file come before all others.
pub fn report(old: &Results, new: &Results) -> Result<String> {
    let rows = old.rows.iter();
    let pairs = rows.filter_map(|row| Some((row, new.row(&row.name)?)));
    let pairs: Vec<_> = pairs.collect();
    ensure!(
        !pairs.is_empty(),
        "the two files have no row in common: their scales or filters differ"
    );
    let mut ratios: Vec<_> = pairs.iter().filter_map(ratio).collect();
    ratios.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));

    let mut text = String::new();
    writeln!(text, "old: {}\nnew: {}", old.title(), new.title())?;
    writeln!(
        text,
        "{:<30} {:>10} {:>10} {:>9}",
        "workload", "old us", "new us", "old / new"
    )?;
    for (row, _) in pairs.iter().filter(|(old, new)| works(old) && !works(new)) {
        writeln!(text, "{:<30} fails now", row.name)?;
    }
    for Ratio {
        name,
        old,
        new,
        ratio,
    } in &ratios
    {
        let (old, new) = (figures(old * 1e6), figures(new * 1e6));
        writeln!(text, "{name:<30} {old:>10} {new:>10} {ratio:>9.3}")?;
    }
    for (_, row) in pairs.iter().filter(|(old, new)| !works(old) && works(new)) {
        writeln!(text, "{:<30} works now", row.name)?;
    }
    if !ratios.is_empty() {
        let logs = ratios.iter().map(|r| r.ratio.ln());
        let mean = (logs.sum::<f64>() / ratios.len() as f64).exp();
        let count = ratios.len();
        writeln!(
            text,
            "geometric mean of {count}: {mean:.3}; above 1 the new one is faster"
        )?;
    }
    let clocks = |(old, new): &&(&Row, &Row)| Some(old.timed()?.clock != new.timed()?.clock);
    let other = pairs
        .iter()
        .filter_map(|pair| clocks(&pair))
        .filter(|other| *other);
    let other = other.count();
    if other > 0 {
        writeln!(
            text,
            "rows timed by the wall clock in one file and by the GPU in the other: {other}"
        )?;
    }
    let alone = old.rows.len() + new.rows.len() - 2 * pairs.len();
    if alone > 0 {
        writeln!(text, "rows in only one of the two files: {alone}")?;
    }
    Ok(text)
}

struct Ratio<'a> {
    name: &'a str,
    /// Seconds.
    old: f64,
    new: f64,
    /// Old time over new time.
    ratio: f64,
}

/// `None` if the row failed in one of the two.
fn ratio<'a>((old, new): &(&'a Row, &'a Row)) -> Option<Ratio<'a>> {
    let (before, after) = (old.timed()?.seconds.median, new.timed()?.seconds.median);
    Some(Ratio {
        name: &old.name,
        old: before,
        new: after,
        ratio: before / after,
    })
}

fn works(row: &Row) -> bool {
    row.timed().is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::measure::Clock;
    use crate::bench::results::tests::{failed, results, timed};
    use crate::bench::results::Outcome;

    #[test]
    fn the_worst_is_first() {
        let old = results(vec![
            timed("add 2x3 f32", 0.25),
            timed("exp 2x3 f32", 0.25),
            timed("log 2x3 f32", 0.25),
            failed("sin 2x3 f32"),
            failed("cos 2x3 f32"),
            timed("tan 2x3 f32", 0.25),
        ]);
        let new = results(vec![
            timed("log 2x3 f32", 0.125),
            timed("exp 2x3 f32", 1.),
            failed("add 2x3 f32"),
            timed("sin 2x3 f32", 1.),
            failed("cos 2x3 f32"),
        ]);
        let text = report(&old, &new).unwrap();
        let rest: Vec<_> = text.lines().skip(3).collect();
        let [add, exp, log, sin, mean, alone] = rest[..] else {
            panic!("{text}");
        };
        assert!(add.starts_with("add ") && add.ends_with("fails now"));
        assert!(exp.starts_with("exp ") && exp.ends_with("250000    1000000     0.250"));
        assert!(log.starts_with("log ") && log.ends_with(" 2.000"));
        assert!(sin.starts_with("sin ") && sin.ends_with("works now"));
        assert!(mean.starts_with("geometric mean of 2: 0.707;"));
        assert!(alone.ends_with(": 1"));
    }

    #[test]
    fn other_clocks_are_told() {
        let (old, mut new) = (timed("add 2x3 f32", 1.), timed("add 2x3 f32", 1.));
        let Outcome::Timed(row) = &mut new.outcome else {
            panic!("it was timed");
        };
        row.clock = Clock::Wall;
        let text = report(&results(vec![old]), &results(vec![new])).unwrap();
        assert!(text.ends_with("in the other: 1\n"), "{text}");
    }

    #[test]
    fn nothing_in_common_is_an_error() {
        let one = results(vec![timed("add 2x3 f32", 1.)]);
        let two = results(vec![timed("add 2x3 f16", 1.)]);
        assert!(report(&one, &two).is_err());
    }
}
