//! The report as a table.

use crate::bench::results::{Outcome, Results, Row, Timed};
use crate::bench::workload::Unit;

/// The header: device, scale, best rates, and column names.
pub fn head(results: &Results) -> String {
    let Results {
        scale,
        samples,
        yardsticks,
        ..
    } = results;
    let yardstick = |what: &str, rate: Option<f64>, unit: Unit| {
        rate.map(|rate| format!(", {what} {} {unit}", figures(rate)))
            .unwrap_or_default()
    };
    format!(
        "{}\nscale {}, {samples} samples{}{}\n{:<WIDTH$} {:>10} {:>25} {:>9} {:<7} {:>7} {:>10} {:>10}",
        results.title(),
        format!("{scale:?}").to_lowercase(),
        yardstick("copy", yardsticks.copy, Unit::Bytes),
        yardstick("f32 gemm", yardsticks.gemm, Unit::Flops),
        "workload",
        "us",
        "us (min .. max)",
        "rate",
        "",
        "of best",
        "dispatches",
        "wall us"
    )
}

/// Width of the longest name.
const WIDTH: usize = 30;

pub fn line(row: &Row) -> String {
    let name = &row.name;
    match &row.outcome {
        Outcome::Timed(timed) => format!("{name:<WIDTH$} {}", cells(timed)),
        Outcome::Failed { error } => {
            let first = error.lines().next().unwrap_or_default();
            format!("{name:<WIDTH$} error: {first}")
        }
    }
}

fn cells(timed: &Timed) -> String {
    let us = |seconds: f64| figures(seconds * 1e6);
    let seconds = &timed.seconds;
    let spread = format!("{} .. {}", us(seconds.min), us(seconds.max));
    let ratio = timed.ratio.map(|ratio| format!("{:.0} %", ratio * 100.));
    let dispatches = timed.dispatches.map(|count| format!("{count:.1}"));
    let wall = timed.wall.unwrap_or(*seconds);
    let cells = format!(
        "{:>10} {spread:>25} {:>9} {:<7} {:>7} {:>10} {:>10}",
        us(seconds.median),
        figures(timed.rate),
        timed.unit,
        ratio.unwrap_or_default(),
        dispatches.unwrap_or_default(),
        us(wall.median)
    );
    cells.trim_end().to_string()
}

/// At least four significant digits, without needless decimals.
pub fn figures(x: f64) -> String {
    if x == 0. || !x.is_finite() {
        return format!("{x}");
    }
    let whole = x.abs().log10().floor();
    let decimals = (3. - whole).clamp(0., 9.) as usize;
    format!("{x:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::results::tests::{failed, results, timed};
    use crate::bench::workload::{all, Scale};

    #[test]
    fn numbers_have_four_figures() {
        for (x, text) in [
            (0., "0"),
            (123456.7, "123457"),
            (1234.5, "1234"),
            (12.34567, "12.35"),
            (0.001234567, "0.001235"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(figures(x), text);
        }
    }

    #[test]
    fn columns_stand_below_their_names() {
        let row = timed("add 4096x4096 f32", 0.0125);
        let results = results(vec![]);
        let head = head(&results);
        let lines: Vec<_> = head.lines().collect();
        assert_eq!(lines[0], "webgpu, Big GPU (TM) 9, vulkan, 2026-01-31");
        assert_eq!(lines[1], "scale full, 3 samples, copy 512.0 GB/s");
        let line = line(&row);
        assert_eq!(
            line.split_whitespace().collect::<Vec<_>>().join(" "),
            "add 4096x4096 f32 12500 6250 .. 25000 160.0 GB/s 31 % 1.5 18750"
        );
        assert_eq!(line.len(), lines[2].len());
        let end = |text: &str, word: &str| text.find(word).unwrap() + word.len();
        assert_eq!(end(&line, "12500"), end(lines[2], " us"));
        assert_eq!(end(&line, "160.0"), end(lines[2], "rate"));
    }

    #[test]
    fn an_error_is_one_line() {
        let line = line(&failed("exp 4x4 f16"));
        assert!(line.starts_with("exp 4x4 f16 "));
        assert!(line.ends_with(" error: no memory"));
    }

    #[test]
    fn names_fit_and_are_unique() {
        for scale in [Scale::Small, Scale::Full] {
            let names = all().flat_map(|w| w.dtypes.iter().map(move |d| w.name(scale, *d)));
            let mut names: Vec<_> = names.collect();
            assert!(names.iter().all(|name| name.len() <= WIDTH), "{names:?}");
            names.sort();
            assert!(names.windows(2).all(|two| two[0] != two[1]), "{names:?}");
        }
    }
}
