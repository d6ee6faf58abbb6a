//! Draws the timelines of `bench/cold/timeline` on one axis of time.

use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::plot::{Line, Panel, draw};

/// The arguments of `indelible-bench client-figures`.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {
    /// The file for the figure.
    #[arg(long)]
    pub svg: PathBuf,
    /// The second figure's span: seconds after the kill.
    #[arg(long, default_value_t = 1.5)]
    pub near_s: f64,
    /// The courses, a line each, named as in NAME-roundN.csv. The first column is in seconds since the kill,
    /// the second the requests answered in 100 ms.
    #[arg(required = true)]
    pub courses: Vec<PathBuf>,
}

/// The points of a course: seconds, thousand requests a second.
fn course(path: &Path) -> Result<Vec<(f64, f64)>> {
    let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
    let mut points = Vec::new();
    for line in text.lines().skip(1) {
        let mut numbers = line.split(',').map(str::parse::<f64>);
        let (Some(Ok(at_s)), Some(Ok(answered))) = (numbers.next(), numbers.next()) else {
            return Err(Error::damaged(format!("{}: {line}", path.display())));
        };
        points.push((at_s, answered * 10.0 / 1e3));
    }
    Ok(points)
}

/// Draws the figure.
///
/// # Errors
/// Errors of files, and courses that are none.
pub fn run(arguments: &Arguments) -> Result<()> {
    let panel = |title: &str, to_s: f64| -> Result<Panel> {
        let mut lines = Vec::new();
        for path in &arguments.courses {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            let name = stem.rsplit_once("-round").map_or(&*stem, |(name, _)| name).to_owned();
            let is_shown = |point: &(f64, f64)| point.0 >= -to_s.min(5.0) && point.0 <= to_s;
            let points = course(path)?.into_iter().filter(is_shown).collect();
            lines.push(Line { name, points });
        }
        Ok(Panel {
            title: title.to_owned(),
            x_label: "seconds since the kill",
            y_label: "thousand requests a second",
            logarithmic: false,
            marks: false,
            lines,
        })
    };
    let panels =
        [panel("kill -9 and restart", f64::MAX)?, panel("around the kill", arguments.near_s)?];
    draw(&arguments.svg, 2, &panels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_course_becomes_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("one.csv");
        std::fs::write(&path, "s,answered\n-0.1,5000\n0.0,0\n3.0,100\n").unwrap();
        assert_eq!(course(&path).unwrap(), [(-0.1, 50.0), (0.0, 0.0), (3.0, 1.0)]);
        let svg = dir.path().join("one.svg");
        let arguments = Arguments { svg: svg.clone(), near_s: 1.0, courses: vec![path.clone()] };
        run(&arguments).unwrap();
        assert!(std::fs::read_to_string(&svg).unwrap().contains("around the kill"));
        std::fs::write(&path, "s,answered\nnothing\n").unwrap();
        assert!(run(&arguments).is_err());
    }
}
