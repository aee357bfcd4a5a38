//! Plots loss curves as SVG.

use anyhow::{anyhow, Result};
use plotters::prelude::*;
use std::path::Path;

/// Draws each curve with its label; skips values that are not finite.
pub fn write(path: &Path, curves: &[(&str, &[f32])]) -> Result<()> {
    let finite = curves.iter().flat_map(|(_, losses)| *losses);
    let finite = finite.copied().filter(|l| l.is_finite());
    let highest = finite.fold(0f32, f32::max).max(f32::MIN_POSITIVE) * 1.05;
    let steps = curves.iter().map(|(_, losses)| losses.len()).max();
    draw(path, curves, steps.unwrap_or(0).max(1), highest)
        .map_err(|e| anyhow!("{}: {e}", path.display()))
}

const FONT: (&str, u32) = ("sans-serif", 14);

fn draw(
    path: &Path,
    curves: &[(&str, &[f32])],
    steps: usize,
    highest: f32,
) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::new(path, (800, 480)).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .margin(16)
        .x_label_area_size(40)
        .y_label_area_size(56)
        .build_cartesian_2d(0..steps, 0f32..highest)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("step")
        .y_desc("loss")
        .label_style(FONT)
        .draw()?;
    // The first curve is drawn last and thin, so that a curve below it stays visible where they agree.
    for (i, (label, losses)) in curves.iter().enumerate().rev() {
        let style = Palette99::pick(i).stroke_width(1 + 3 * i as u32);
        let points = losses.iter().copied().enumerate();
        let series = LineSeries::new(points.filter(|(_, l)| l.is_finite()), style);
        chart
            .draw_series(series)?
            .label(*label)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 20, y)], style));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .label_font(FONT)
        .border_style(BLACK)
        .background_style(WHITE)
        .draw()?;
    area.present()?;
    Ok(())
}
