//! Line plots as SVG, with a logarithmic vertical axis where values are far apart.

use std::ops::Range;
use std::path::Path;

use plotters::coord::ranged1d::ValueFormatter;
use plotters::prelude::*;

use crate::error::{Error, Result};

/// One line.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64)>,
}

/// Axes with lines in them.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) x_label: &'static str,
    pub(crate) y_label: &'static str,
    pub(crate) logarithmic: bool,
    /// Whether to mark the points of the lines.
    pub(crate) marks: bool,
    pub(crate) lines: Vec<Line>,
}

type Drawn = std::result::Result<(), Box<dyn std::error::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, plotters::coord::Shift>;

const WIDTH: u32 = 560;
const HEIGHT: u32 = 360;

/// Draws panels in rows of `columns`.
pub(crate) fn draw(path: &Path, columns: usize, panels: &[Panel]) -> Result<()> {
    draw_all(path, columns, panels)
        .map_err(|error| Error::file(path)(std::io::Error::other(error.to_string())))
}

fn draw_all(path: &Path, columns: usize, panels: &[Panel]) -> Drawn {
    let rows = panels.len().div_ceil(columns).max(1);
    let size = (WIDTH * u32::try_from(columns)?, HEIGHT * u32::try_from(rows)?);
    let root = SVGBackend::new(path, size).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, panel) in root.split_evenly((rows, columns)).iter().zip(panels) {
        let ys = || panel.lines.iter().flat_map(|line| &line.points).map(|point| point.1);
        let y_max = ys().fold(0.0, f64::max).max(1e-3);
        if panel.logarithmic {
            let y_min = ys().filter(|y| *y > 0.0).fold(y_max, f64::min);
            draw_panel(area, panel, (y_min * 0.7..y_max * 1.6).log_scale())?;
        } else {
            draw_panel::<plotters::coord::types::RangedCoordf64, _>(
                area,
                panel,
                0.0..y_max * 1.25,
            )?;
        }
    }
    root.present()?;
    Ok(())
}

fn x_range(panel: &Panel) -> Range<f64> {
    let xs = || panel.lines.iter().flat_map(|line| &line.points).map(|point| point.0);
    let (low, high) = (xs().fold(f64::MAX, f64::min), xs().fold(f64::MIN, f64::max));
    if low > high {
        return 0.0..1.0;
    }
    let margin = ((high - low) * 0.03).max(1e-3);
    low - margin..high + margin
}

fn draw_panel<Y, R>(area: &Area<'_>, panel: &Panel, ys: R) -> Drawn
where
    Y: Ranged<ValueType = f64> + ValueFormatter<f64>,
    R: plotters::coord::ranged1d::AsRangedCoord<Value = f64, CoordDescType = Y>,
{
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(38)
        .y_label_area_size(62)
        .build_cartesian_2d(x_range(panel), ys)?;
    chart
        .configure_mesh()
        .x_desc(panel.x_label)
        .y_desc(panel.y_label)
        .light_line_style(WHITE)
        .draw()?;
    for (index, line) in panel.lines.iter().enumerate() {
        let colour = Palette99::pick(index).to_rgba();
        chart
            .draw_series(LineSeries::new(line.points.iter().copied(), colour.stroke_width(2)))?
            .label(line.name.clone())
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
        if panel.marks {
            let circles = line.points.iter().map(|point| Circle::new(*point, 3, colour.filled()));
            chart.draw_series(circles)?;
        }
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .label_font(("sans-serif", 11))
        .background_style(WHITE.mix(0.75))
        .border_style(BLACK.mix(0.2))
        .draw()?;
    Ok(())
}
