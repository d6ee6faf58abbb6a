//! Positions on the sphere as numbers of 52 bits: the bits of longitude and latitude in turn, so
//! that a cell of a grid is a range of scores.

const LONGITUDE_MAX: f64 = 180.0;
/// Where the Mercator projection ends.
pub(super) const LATITUDE_MAX: f64 = 85.051_128_78;
pub(super) const EARTH_RADIUS_M: f64 = 6_372_797.560_856;
const MERCATOR_MAX_M: f64 = 20_037_726.37;
/// The bits of each coordinate in a score.
const STEP_MAX: u32 = 26;
pub(super) const RADIANS: f64 = std::f64::consts::PI / 180.0;

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

    pub(super) fn latitude_distance_m(self, other: Self) -> f64 {
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
pub(super) struct Cell {
    column: u32,
    row: u32,
    pub(super) step: u32,
}

impl Cell {
    pub(super) fn of(position: Position, step: u32) -> Self {
        let column = offset(position.longitude, LONGITUDE_MAX, step);
        Self { column, row: offset(position.latitude, LATITUDE_MAX, step), step }
    }

    /// The cell of a position, or the one at the edge of the grid that is nearest to it.
    pub(super) fn nearest(position: Position, step: u32) -> Self {
        let latitude = position.latitude.clamp(-LATITUDE_MAX, LATITUDE_MAX);
        let Self { column, row, .. } = Self::of(Position { latitude, ..position }, step);
        let last = (1 << step) - 1;
        Self { column: column.min(last), row: row.min(last), step }
    }

    /// Whether the cell and its neighbours, around the globe, have all that is within `bounds`.
    pub(super) fn reaches(self, bounds: &Bounds) -> bool {
        let last = (1_u32 << self.step) - 1;
        let is_near = |at: u32, here: u32| {
            let away = at.wrapping_sub(here) & last;
            away <= 1 || away == last
        };
        let low = Self::nearest(bounds.south_west(), self.step);
        let high = Self::nearest(bounds.north_east(), self.step);
        (low.column..=high.column).all(|column| is_near(column, self.column))
            && (low.row..=high.row).all(|row| is_near(row, self.row))
    }

    /// Whether the cell has some of what is within `bounds`.
    pub(super) fn is_within(self, bounds: &Bounds) -> bool {
        let low = Self::nearest(bounds.south_west(), self.step);
        let high = Self::nearest(bounds.north_east(), self.step);
        (low.column..=high.column).contains(&self.column)
            && (low.row..=high.row).contains(&self.row)
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

    pub(super) fn longitudes(self) -> (f64, f64) {
        let at = f64::from(self.column);
        (self.edge(at, LONGITUDE_MAX), self.edge(at + 1.0, LONGITUDE_MAX))
    }

    pub(super) fn latitudes(self) -> (f64, f64) {
        let at = f64::from(self.row);
        (self.edge(at, LATITUDE_MAX), self.edge(at + 1.0, LATITUDE_MAX))
    }

    /// The cell so many columns and rows away, around the globe; what is not moved is left.
    pub(super) fn moved(self, columns: i32, rows: i32) -> Self {
        let wrap = |at: u32, by: i32| match by {
            0 => at,
            by => at.wrapping_add_signed(by) & ((1 << self.step) - 1),
        };
        Self { column: wrap(self.column, columns), row: wrap(self.row, rows), step: self.step }
    }

    /// The scores of the cell, the last one excluded.
    #[expect(clippy::cast_precision_loss, reason = "54 bits, those of a cell's edge")]
    pub(super) fn scores(self) -> (f64, f64) {
        let shift = 2 * (STEP_MAX - self.step);
        ((self.bits() << shift) as f64, ((self.bits() + 1) << shift) as f64)
    }
}

/// The sides of what is searched, in degrees.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) west: f64,
    pub(super) south: f64,
    pub(super) east: f64,
    pub(super) north: f64,
}

impl Bounds {
    /// The sides of a rectangle around `middle`, half of its sides in meters.
    pub(super) fn around(middle: Position, half_width: f64, half_height: f64) -> Self {
        let up = half_height / EARTH_RADIUS_M / RADIANS;
        let wide = if middle.latitude < 0.0 { middle.latitude - up } else { middle.latitude + up };
        let across = half_width / EARTH_RADIUS_M / (wide * RADIANS).cos() / RADIANS;
        Self {
            west: middle.longitude - across,
            south: middle.latitude - up,
            east: middle.longitude + across,
            north: middle.latitude + up,
        }
    }

    pub(super) fn contain(&self, position: Position) -> bool {
        (self.west..=self.east).contains(&position.longitude)
            && (self.south..=self.north).contains(&position.latitude)
    }

    fn south_west(&self) -> Position {
        Position { longitude: self.west, latitude: self.south }
    }

    fn north_east(&self) -> Position {
        Position { longitude: self.east, latitude: self.north }
    }

    /// Meters from `middle` to the farthest corner.
    pub(super) fn reach_m(&self, middle: Position) -> f64 {
        let south_east = Position { longitude: self.east, latitude: self.south };
        let north_west = Position { longitude: self.west, latitude: self.north };
        [self.south_west(), south_east, north_west, self.north_east()]
            .into_iter()
            .map(|corner| middle.distance_m(corner))
            .fold(0.0, f64::max)
    }
}

/// How fine a grid is whose neighbouring cells reach so far.
pub(super) fn step_of(reach_m: f64, latitude: f64) -> u32 {
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
