//! Positions on the sphere as numbers of 52 bits: the bits of longitude and latitude in turn, so
//! that a cell of a grid is a range of scores.

const LONGITUDE_MAX: f64 = 180.0;
/// Where the Mercator projection ends.
const LATITUDE_MAX: f64 = 85.051_128_78;
const EARTH_RADIUS_M: f64 = 6_372_797.560_856;
const MERCATOR_MAX_M: f64 = 20_037_726.37;
/// The bits of each coordinate in a score.
const STEP_MAX: u32 = 26;
const RADIANS: f64 = std::f64::consts::PI / 180.0;

/// Degrees.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Position {
    pub(super) longitude: f64,
    pub(super) latitude: f64,
}

/// The part of a coordinate's range before a value, in `2^step` steps.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is in the range")]
fn offset(value: f64, max: f64, step: u32) -> u32 {
    ((value + max) / (max * 2.0) * f64::from(1_u32 << step)) as u32
}

fn spread(value: u32) -> u64 {
    (0..32).fold(0, |bits, at| bits | u64::from(value >> at & 1) << (2 * at))
}

fn gather(bits: u64) -> u32 {
    (0..32).fold(0, |value, at| value | u32::from(bits >> (2 * at) & 1 == 1) << at)
}

impl Position {
    /// Whether it is one that has a score.
    pub(super) fn is_valid(self) -> bool {
        self.longitude.abs() <= LONGITUDE_MAX && self.latitude.abs() <= LATITUDE_MAX
    }

    #[expect(clippy::cast_precision_loss, reason = "54 bits at most, the last one zero")]
    pub(super) fn score(self) -> f64 {
        Cell::of(self, STEP_MAX).bits() as f64
    }

    /// The middle of the cell that a score means; any number is taken, as C takes it.
    pub(super) fn of_score(score: f64) -> Self {
        let cell = Cell::of_bits(bits_of(score), STEP_MAX);
        let (west, east) = cell.longitudes();
        let (south, north) = cell.latitudes();
        Self {
            longitude: ((west + east) / 2.0).clamp(-LONGITUDE_MAX, LONGITUDE_MAX),
            latitude: ((south + north) / 2.0).clamp(-LATITUDE_MAX, LATITUDE_MAX),
        }
    }

    /// Eleven letters of the usual Geohash, of which the last is always the same.
    pub(super) fn geohash(self) -> [u8; 11] {
        const LETTERS: &[u8; 32] = b"0123456789bcdefghjkmnpqrstuvwxyz";
        let (longitude, latitude) = (
            offset(self.longitude, LONGITUDE_MAX, STEP_MAX),
            offset(self.latitude, 90.0, STEP_MAX),
        );
        let bits = spread(latitude) | spread(longitude) << 1;
        let mut text = [b'0'; 11];
        for (at, letter) in text[..10].iter_mut().enumerate() {
            *letter = LETTERS[(bits >> (52 - (at + 1) * 5) & 31) as usize];
        }
        text
    }

    /// Meters along a great circle, by the haversine formula.
    pub(super) fn distance_m(self, other: Self) -> f64 {
        let v = ((other.longitude * RADIANS - self.longitude * RADIANS) / 2.0).sin();
        if v == 0.0 {
            return self.latitude_distance_m(other);
        }
        let (here, there) = (self.latitude * RADIANS, other.latitude * RADIANS);
        let u = ((there - here) / 2.0).sin();
        let a = u * u + here.cos() * there.cos() * v * v;
        // Rounding may take it above 1, of which there is no arcsine.
        2.0 * EARTH_RADIUS_M * a.sqrt().min(1.0).asin()
    }

    fn latitude_distance_m(self, other: Self) -> f64 {
        EARTH_RADIUS_M * (other.latitude * RADIANS - self.latitude * RADIANS).abs()
    }
}

/// A score as the number that C makes of it on x86, where it is none of 64 bits.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "see above")]
fn bits_of(score: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    let signed = |score: f64| if (-HALF..HALF).contains(&score) { score as i64 } else { i64::MIN };
    if score < HALF { signed(score) as u64 } else { signed(score - HALF) as u64 ^ 1 << 63 }
}

/// A cell of the grid with `2^step` columns and rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Cell {
    column: u32,
    row: u32,
    step: u32,
}

impl Cell {
    fn of(position: Position, step: u32) -> Self {
        let column = offset(position.longitude, LONGITUDE_MAX, step);
        Self { column, row: offset(position.latitude, LATITUDE_MAX, step), step }
    }

    fn of_bits(bits: u64, step: u32) -> Self {
        Self { column: gather(bits >> 1), row: gather(bits), step }
    }

    fn bits(self) -> u64 {
        spread(self.row) | spread(self.column) << 1
    }

    fn edge(self, at: f64, max: f64) -> f64 {
        -max + at / f64::from(1_u32 << self.step) * (max * 2.0)
    }

    fn longitudes(self) -> (f64, f64) {
        let at = f64::from(self.column);
        (self.edge(at, LONGITUDE_MAX), self.edge(at + 1.0, LONGITUDE_MAX))
    }

    fn latitudes(self) -> (f64, f64) {
        let at = f64::from(self.row);
        (self.edge(at, LATITUDE_MAX), self.edge(at + 1.0, LATITUDE_MAX))
    }

    /// The cell so many columns and rows away, around the globe; what is not moved is left.
    fn moved(self, columns: i32, rows: i32) -> Self {
        let wrap = |at: u32, by: i32| match by {
            0 => at,
            by => at.wrapping_add_signed(by) & ((1 << self.step) - 1),
        };
        Self { column: wrap(self.column, columns), row: wrap(self.row, rows), step: self.step }
    }

    /// The scores of the cell, the last one excluded.
    #[expect(clippy::cast_precision_loss, reason = "54 bits, those of a cell's edge")]
    fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEP_MAX - self.step);
        ((self.bits() << shift) as f64, ((self.bits() + 1) << shift) as f64)
    }
}

/// What is searched, in meters.
#[derive(Debug, Clone, Copy)]
pub(super) enum Shape {
    Circle { radius: f64 },
    Box { width: f64, height: f64 },
}

impl Shape {
    /// How far `position` is from the middle, if it is inside.
    pub(super) fn distance_m(self, middle: Position, position: Position) -> Option<f64> {
        if let Self::Box { width, height } = self {
            let beside = Position { longitude: middle.longitude, ..position };
            if position.latitude_distance_m(middle) > height / 2.0
                || position.distance_m(beside) > width / 2.0
            {
                return None;
            }
            return Some(middle.distance_m(position));
        }
        let distance = middle.distance_m(position);
        let is_outside = matches!(self, Self::Circle { radius } if distance > radius);
        (!is_outside).then_some(distance)
    }

    /// The ranges of scores that together have all of it: at most nine cells.
    pub(super) fn score_ranges(self, middle: Position) -> Vec<(f64, f64)> {
        let (half_width, half_height, reach) = match self {
            Self::Circle { radius } => (radius, radius, radius),
            Self::Box { width, height } => {
                let (w, h) = (width / 2.0, height / 2.0);
                let reach = (w * w + h * h).sqrt();
                (w, h, reach)
            }
        };
        let up = half_height / EARTH_RADIUS_M / RADIANS;
        let wide = if middle.latitude < 0.0 { middle.latitude - up } else { middle.latitude + up };
        let across = half_width / EARTH_RADIUS_M / (wide * RADIANS).cos() / RADIANS;
        let (south, north) = (middle.latitude - up, middle.latitude + up);
        let (west, east) = (middle.longitude - across, middle.longitude + across);
        let mut step = step_of(reach, middle.latitude);
        let mut cell = Cell::of(middle, step);
        let is_short = cell.moved(0, 1).latitudes().1 < north
            || cell.moved(0, -1).latitudes().0 > south
            || cell.moved(1, 0).longitudes().1 < east
            || cell.moved(-1, 0).longitudes().0 > west;
        if step > 1 && is_short {
            step -= 1;
            cell = Cell::of(middle, step);
        }
        let skips = |columns: i32, rows: i32| {
            step >= 2
                && ((rows < 0 && cell.latitudes().0 < south)
                    || (rows > 0 && cell.latitudes().1 > north)
                    || (columns < 0 && cell.longitudes().0 < west)
                    || (columns > 0 && cell.longitudes().1 > east))
        };
        let around = [(0, 0), (0, 1), (0, -1), (1, 0), (-1, 0), (1, 1), (-1, 1), (1, -1), (-1, -1)];
        let mut cells: Vec<Cell> = Vec::with_capacity(around.len());
        for (columns, rows) in around {
            let next = cell.moved(columns, rows);
            if !skips(columns, rows) && !cells.contains(&next) {
                cells.push(next);
            }
        }
        cells.into_iter().map(Cell::scores).collect()
    }
}

/// How fine a grid is whose neighbouring cells reach so far.
fn step_of(reach_m: f64, latitude: f64) -> u32 {
    if reach_m == 0.0 {
        return STEP_MAX;
    }
    let (mut reach, mut step) = (reach_m, 1_u32);
    while reach < MERCATOR_MAX_M {
        reach *= 2.0;
        step += 1;
    }
    let polar = u32::from(latitude.abs() > 66.0) + u32::from(latitude.abs() > 80.0);
    step.saturating_sub(2 + polar).clamp(1, STEP_MAX)
}
