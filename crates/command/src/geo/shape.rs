//! What is searched, and in which cells of the grid it lies.

use super::polygon::Polygon;
use super::position::{Bounds, Cell, Position, step_of};

/// What is searched; lengths are in meters.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
    Polygon(Polygon),
}

impl Shape {
    /// Meters from the middle to `position`, if that is inside.
    pub(super) fn distance_m(&self, middle: Position, position: Position) -> Option<f64> {
        match self {
            Self::Circle { radius } => {
                let distance = middle.distance_m(position);
                let is_outside = distance > *radius;
                (!is_outside).then_some(distance)
            }
            Self::Box { width, height } => {
                let beside = Position { longitude: middle.longitude, ..position };
                let is_outside = position.latitude_distance_m(middle) > height / 2.0
                    || position.distance_m(beside) > width / 2.0;
                (!is_outside).then(|| middle.distance_m(position))
            }
            Self::Polygon(polygon) => {
                polygon.contains(position).then(|| middle.distance_m(position))
            }
        }
    }

    /// The ranges of scores that together have all of it: at most nine cells.
    pub(super) fn score_ranges(&self, middle: Position) -> Vec<(f64, f64)> {
        let cells = match self {
            Self::Circle { radius } => {
                cells_around(middle, &Bounds::around(middle, *radius, *radius), *radius)
            }
            Self::Box { width, height } => {
                let (w, h) = (width / 2.0, height / 2.0);
                cells_around(middle, &Bounds::around(middle, w, h), (w * w + h * h).sqrt())
            }
            Self::Polygon(polygon) => cells_over(middle, polygon.bounds()),
        };
        cells.into_iter().map(Cell::scores).collect()
    }
}

/// The cell of `middle` whose neighbours reach as far as `bounds`, in all but rare cases. `cell_of`
/// makes a cell of a position and a step.
fn middle_cell(
    middle: Position,
    bounds: &Bounds,
    reach_m: f64,
    cell_of: fn(Position, u32) -> Cell,
) -> Cell {
    let cell = cell_of(middle, step_of(reach_m, middle.latitude));
    let is_short = cell.moved(0, 1).latitudes().1 < bounds.north
        || cell.moved(0, -1).latitudes().0 > bounds.south
        || cell.moved(1, 0).longitudes().1 < bounds.east
        || cell.moved(-1, 0).longitudes().0 > bounds.west;
    if cell.step > 1 && is_short { cell_of(middle, cell.step - 1) } else { cell }
}

/// The cells in which a circle or a box is searched. They are those of Redis, which near the poles
/// do not have all of it.
fn cells_around(middle: Position, bounds: &Bounds, reach_m: f64) -> Vec<Cell> {
    let cell = middle_cell(middle, bounds, reach_m, Cell::of);
    let skips = |columns: i32, rows: i32| {
        cell.step >= 2
            && ((rows < 0 && cell.latitudes().0 < bounds.south)
                || (rows > 0 && cell.latitudes().1 > bounds.north)
                || (columns < 0 && cell.longitudes().0 < bounds.west)
                || (columns > 0 && cell.longitudes().1 > bounds.east))
    };
    let around = AROUND.into_iter().filter(|(columns, rows)| !skips(*columns, *rows));
    distinct(around.map(|(columns, rows)| cell.moved(columns, rows)))
}

/// The cells that have all that is within `bounds`, which do not go around the globe: in the order
/// of [`cells_around`], on a coarser grid until the neighbours of the middle are enough.
///
/// The middle of a polygon is on the sphere. It can be outside of `bounds`, and on the other side
/// of the globe: that of -170 and 170 degrees is 180, and the polygon has what is near 0.
fn cells_over(middle: Position, bounds: &Bounds) -> Vec<Cell> {
    let mut cell = middle_cell(middle, bounds, bounds.reach_m(middle), Cell::nearest);
    while cell.step > 1 && !cell.reaches(bounds) {
        cell = Cell::nearest(middle, cell.step - 1);
    }
    let around = AROUND.into_iter().map(|(columns, rows)| cell.moved(columns, rows));
    distinct(around.filter(|cell| cell.is_within(bounds)))
}

/// The columns and rows to a cell's neighbours, after the cell itself.
const AROUND: [(i32, i32); 9] =
    [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];

/// Without those that are there already: on a coarse grid neighbours are the same.
fn distinct(cells: impl Iterator<Item = Cell>) -> Vec<Cell> {
    let mut distinct: Vec<Cell> = Vec::with_capacity(AROUND.len());
    for cell in cells {
        if !distinct.contains(&cell) {
            distinct.push(cell);
        }
    }
    distinct
}

#[cfg(test)]
mod tests {
    use super::super::position::LATITUDE_MAX;
    use super::*;

    /// Whether each of `positions`, with their scores, that is within `bounds` is in the cells for
    /// them.
    fn all_are_covered(middle: Position, bounds: &Bounds, positions: &[(Position, f64)]) -> bool {
        let cells = cells_over(middle, bounds);
        assert!(cells.len() <= 9, "{} cells", cells.len());
        let ranges: Vec<_> = cells.into_iter().map(Cell::scores).collect();
        positions
            .iter()
            .filter(|(position, _)| bounds.contain(*position))
            .all(|(_, score)| ranges.iter().any(|(from, to)| (*from..*to).contains(score)))
    }

    #[test]
    fn cells_have_all_of_the_bounds_wherever_the_middle_is() {
        let latitudes = [-85.0, -84.9, -70.0, -45.0, -0.001, 0.0, 0.001, 30.0, 66.5, 80.5, 85.0];
        let longitudes =
            [-179.9, -170.0, -90.0, -45.1, -0.001, 0.0, 0.001, 12.0, 89.9, 170.0, 179.9];
        let positions: Vec<(Position, f64)> = longitudes
            .iter()
            .flat_map(|longitude| latitudes.map(|latitude| (*longitude, latitude)))
            .map(|(longitude, latitude)| Position { longitude, latitude })
            .map(|position| (position, position.score()))
            .collect();
        for (from, _) in &positions {
            for (to, _) in &positions {
                let bounds = Bounds {
                    west: from.longitude.min(to.longitude),
                    south: from.latitude.min(to.latitude),
                    east: from.longitude.max(to.longitude),
                    north: from.latitude.max(to.latitude),
                };
                for longitude in [-180.0, -91.0, 0.0, 45.0, 180.0] {
                    for latitude in [-90.0, -60.0, 0.0, 75.0, 90.0] {
                        let middle = Position { longitude, latitude };
                        assert!(
                            all_are_covered(middle, &bounds, &positions),
                            "{middle:?} {bounds:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn a_small_area_is_searched_in_small_cells() {
        let bounds = Bounds { west: 13.0, south: 38.0, east: 13.01, north: 38.01 };
        let cells = cells_over(Position { longitude: 13.005, latitude: 38.005 }, &bounds);
        assert!(cells.iter().all(|cell| cell.step >= 13), "{cells:?}");
        let bounds = Bounds { west: 179.0, south: 84.0, east: 180.0, north: LATITUDE_MAX };
        let cells = cells_over(Position { longitude: 179.5, latitude: 84.6 }, &bounds);
        assert!(cells.iter().all(|cell| cell.step >= 4), "{cells:?}");
    }
}
