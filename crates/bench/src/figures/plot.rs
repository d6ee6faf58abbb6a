//! Plots as SVG: one panel per measure, one line per series with its medians and spreads.

use std::path::Path;

use plotters::prelude::*;

use crate::error::{Error, Result};

/// A line: its name, and for each x the median, minimum and maximum.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) points: Vec<(f64, (f64, f64, f64))>,
}

/// Axes and the lines between them.
pub(super) struct Panel {
    pub(super) y_label: &'static str,
    pub(super) series: Vec<Series>,
}

const WIDTH: u32 = 760;
const PANEL_HEIGHT: u32 = 380;

/// Draws panels one below the other.
pub(super) fn draw(path: &Path, title: &str, x_label: &str, panels: &[Panel]) -> Result<()> {
    draw_all(path, title, x_label, panels)
        .map_err(|error| Error::file(path)(std::io::Error::other(error.to_string())))
}

type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;

fn draw_all(path: &Path, title: &str, x_label: &str, panels: &[Panel]) -> Drawn {
    let count = u32::try_from(panels.len())?;
    let root = SVGBackend::new(path, (WIDTH, PANEL_HEIGHT * count)).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, panel) in root.split_evenly((panels.len(), 1)).iter().zip(panels) {
        draw_panel(area, title, x_label, panel)?;
    }
    root.present()?;
    Ok(())
}

fn draw_panel(
    area: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    title: &str,
    x_label: &str,
    panel: &Panel,
) -> Drawn {
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let x_max = points().map(|point| point.0).fold(1.0, f64::max) * 1.05;
    let y_max = points().map(|point| point.1.2).fold(0.0, f64::max).max(0.1) * 1.1;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 18))
        .margin(12)
        .x_label_area_size(42)
        .y_label_area_size(64)
        .build_cartesian_2d(0.0..x_max, 0.0..y_max)?;
    chart.configure_mesh().x_desc(x_label).y_desc(panel.y_label).light_line_style(WHITE).draw()?;
    for (index, series) in panel.series.iter().enumerate() {
        let colour = Palette99::pick(index).to_rgba();
        let medians = series.points.iter().map(|&(x, (median, ..))| (x, median));
        chart
            .draw_series(LineSeries::new(medians.clone(), colour.stroke_width(2)))?
            .label(series.name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
        chart.draw_series(medians.map(|point| Circle::new(point, 3, colour.filled())))?;
        chart.draw_series(series.points.iter().map(|&(x, (_, low, high))| {
            PathElement::new([(x, low), (x, high)], colour.stroke_width(1))
        }))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()?;
    Ok(())
}
