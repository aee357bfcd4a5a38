//! Plots rates as a horizontal bar chart in SVG.

use crate::bench::results::Results;
use crate::bench::table::figures;
use crate::bench::workload::Unit;
use anyhow::{anyhow, ensure, Result};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

/// Draws one panel per unit, one group of bars per row, and one bar per file.
pub fn write(path: &Path, files: &[Results]) -> Result<()> {
    let panels: Vec<_> = [Unit::Bytes, Unit::Flops]
        .into_iter()
        .filter_map(|unit| Panel::new(unit, files))
        .collect();
    ensure!(!panels.is_empty(), "the files contain no rates to plot");
    draw(path, &panels, files).map_err(|e| anyhow!("{}: {e}", path.display()))
}

/// The rows with the same unit.
struct Panel<'a> {
    unit: Unit,
    groups: Vec<Group<'a>>,
    highest: f64,
}

struct Group<'a> {
    name: &'a str,
    /// File index and rate.
    bars: Vec<(usize, f64)>,
}

impl<'a> Panel<'a> {
    /// `None` if no row has this unit.
    fn new(unit: Unit, files: &'a [Results]) -> Option<Self> {
        let mut groups: Vec<Group> = Vec::new();
        for (file, results) in files.iter().enumerate() {
            for row in &results.rows {
                let Some(timed) = row.timed().filter(|timed| timed.unit == unit) else {
                    continue;
                };
                let bar = (file, timed.rate);
                match groups.iter_mut().find(|group| group.name == row.name) {
                    Some(group) => group.bars.push(bar),
                    None => groups.push(Group {
                        name: &row.name,
                        bars: vec![bar],
                    }),
                }
            }
        }
        let rates = groups.iter().flat_map(|group| &group.bars);
        let highest = rates.map(|(_, rate)| *rate).reduce(f64::max)?;
        Some(Self {
            unit,
            groups,
            highest,
        })
    }

    fn height(&self) -> i32 {
        let bars: usize = self.groups.iter().map(|group| group.bars.len()).sum();
        TITLE + bars as i32 * BAR + self.groups.len() as i32 * GAP
    }
}

// Pixels: height of a title line and a bar, gap between groups, margin; left edge of the bars, longest bar, total
// width.
const TITLE: i32 = 28;
const BAR: i32 = 14;
const GAP: i32 = 6;
const MARGIN: i32 = 16;
const LEFT: i32 = 240;
const LONGEST: i32 = 520;
const WIDTH: i32 = 860;

type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw(path: &Path, panels: &[Panel], files: &[Results]) -> Drawn {
    let heights: i32 = panels.iter().map(Panel::height).sum();
    let height = heights + files.len() as i32 * TITLE + 2 * MARGIN;
    let area = SVGBackend::new(path, (WIDTH as u32, height as u32)).into_drawing_area();
    area.fill(&WHITE)?;
    let write = |text: &str, at: (i32, i32), align: HPos| -> Drawn {
        let style = ("sans-serif", 12).into_font().color(&BLACK);
        let style = style.pos(Pos::new(align, VPos::Center));
        Ok(area.draw(&Text::new(text.to_string(), at, style))?)
    };
    let bar = |file: usize, y: i32, length: i32| -> Drawn {
        let corners = [(LEFT, y + 1), (LEFT + length.max(1), y + BAR - 1)];
        let style = Palette99::pick(file).filled();
        Ok(area.draw(&Rectangle::new(corners, style))?)
    };

    let mut y = MARGIN;
    for (file, results) in files.iter().enumerate() {
        bar(file, y, BAR)?;
        write(&results.title(), (LEFT + 2 * BAR, y + BAR / 2), HPos::Left)?;
        y += TITLE;
    }
    for panel in panels {
        let unit = panel.unit.to_string();
        write(&unit, (LEFT, y + TITLE / 2), HPos::Left)?;
        y += TITLE;
        for group in &panel.groups {
            let middle = y + group.bars.len() as i32 * BAR / 2;
            write(group.name, (LEFT - 8, middle), HPos::Right)?;
            for &(file, rate) in &group.bars {
                let length = (rate / panel.highest * f64::from(LONGEST)) as i32;
                bar(file, y, length)?;
                let end = (LEFT + length + 6, y + BAR / 2);
                write(&figures(rate), end, HPos::Left)?;
                y += BAR;
            }
            y += GAP;
        }
    }
    area.present()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::results::tests::{failed, results, timed};

    #[test]
    fn each_rate_has_a_bar() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("bars.svg");
        let rows = [timed("add 2x3 f32", 0.25), timed("exp <2x3 f32", 0.5)];
        let files = [
            results(rows.to_vec()),
            results(vec![timed("add 2x3 f32", 0.125)]),
        ];
        write(&path, &files).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        // One is the background, two belong to the legend.
        assert_eq!(svg.matches("<rect").count(), 1 + 2 + 3, "{svg}");
        for text in ["add 2x3 f32", "exp &lt;2x3 f32", "8.000", "16.00", "GB/s"] {
            assert!(svg.contains(text), "{text} is not in {svg}");
        }
    }

    #[test]
    fn nothing_to_draw_is_an_error() {
        let failed = results(vec![failed("add 2x3 f32")]);
        assert!(write(Path::new("never.svg"), &[failed]).is_err());
    }
}
