//! Polygons of longitudes and latitudes, on the plane: an edge is straight on the map, not on the
//! sphere, and none crosses the antimeridian.

use super::position::{Bounds, Position, RADIANS};

/// The vertices that a polygon has at least.
pub(super) const VERTICES_MIN: usize = 3;

/// The vertices that a polygon has at most: each member of a key may be compared with each edge.
pub(super) const VERTICES_MAX: usize = 1000;

/// See the file's top. The last vertex is joined to the first one.
#[derive(Debug, Clone)]
pub(super) struct Polygon {
    vertices: Vec<Position>,
    bounds: Bounds,
}

impl Polygon {
    /// REQUIRES: at least [`VERTICES_MIN`] vertices.
    pub(super) fn new(vertices: Vec<Position>) -> Self {
        assert!(vertices.len() >= VERTICES_MIN, "{} vertices", vertices.len());
        let first = vertices[0];
        let mut bounds = Bounds {
            west: first.longitude,
            south: first.latitude,
            east: first.longitude,
            north: first.latitude,
        };
        for vertex in &vertices {
            bounds.west = bounds.west.min(vertex.longitude);
            bounds.south = bounds.south.min(vertex.latitude);
            bounds.east = bounds.east.max(vertex.longitude);
            bounds.north = bounds.north.max(vertex.latitude);
        }
        Self { vertices, bounds }
    }

    /// The sides of the smallest box that has all vertices.
    pub(super) fn bounds(&self) -> &Bounds {
        &self.bounds
    }

    /// The place from which distances are told: below it, on the sphere, is the mean of the
    /// vertices as points in space. It can be outside of the polygon.
    pub(super) fn middle(&self) -> Position {
        let (mut x, mut y, mut z) = (0.0, 0.0, 0.0);
        for vertex in &self.vertices {
            let (longitude, latitude) = (vertex.longitude * RADIANS, vertex.latitude * RADIANS);
            x += latitude.cos() * longitude.cos();
            y += latitude.cos() * longitude.sin();
            z += latitude.sin();
        }
        Position { longitude: y.atan2(x) / RADIANS, latitude: z.atan2(x.hypot(y)) / RADIANS }
    }

    /// Whether a position is inside: whether a ray to the east crosses an odd number of edges. So
    /// what several turns of the edges enclose is inside if their number is odd, and of what is on
    /// an edge that in the south and the west is inside.
    pub(super) fn contains(&self, position: Position) -> bool {
        if !self.bounds.contain(position) {
            return false;
        }
        let Position { longitude, latitude } = position;
        let mut before = self.vertices[self.vertices.len() - 1];
        let mut is_inside = false;
        for &vertex in &self.vertices {
            if (vertex.latitude > latitude) != (before.latitude > latitude) {
                let (across, up) =
                    (before.longitude - vertex.longitude, before.latitude - vertex.latitude);
                let crossing = across * (latitude - vertex.latitude) / up + vertex.longitude;
                is_inside ^= longitude < crossing;
            }
            before = vertex;
        }
        is_inside
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(longitude: f64, latitude: f64) -> Position {
        Position { longitude, latitude }
    }

    fn polygon(vertices: &[(f64, f64)]) -> Polygon {
        Polygon::new(
            vertices.iter().map(|(longitude, latitude)| at(*longitude, *latitude)).collect(),
        )
    }

    #[test]
    fn a_square_has_its_south_and_west_edge() {
        for vertices in [
            [(0.0, 0.0), (10.0, 0.0), (10.0, 10.0), (0.0, 10.0)],
            [(0.0, 10.0), (10.0, 10.0), (10.0, 0.0), (0.0, 0.0)],
        ] {
            let square = polygon(&vertices);
            for (longitude, latitude) in [(5.0, 5.0), (0.0, 5.0), (5.0, 0.0), (0.0, 0.0)] {
                assert!(square.contains(at(longitude, latitude)), "{longitude} {latitude}");
            }
            for (longitude, latitude) in
                [(10.0, 5.0), (5.0, 10.0), (10.0, 10.0), (-0.1, 5.0), (5.0, 10.1), (-5.0, -5.0)]
            {
                assert!(!square.contains(at(longitude, latitude)), "{longitude} {latitude}");
            }
        }
    }

    #[test]
    fn a_notch_is_outside_and_what_is_enclosed_twice_too() {
        let arrow = polygon(&[(0.0, 0.0), (10.0, 5.0), (0.0, 10.0), (4.0, 5.0)]);
        assert!(arrow.contains(at(6.0, 5.0)));
        assert!(!arrow.contains(at(2.0, 5.0)));
        let star = polygon(&[(0.0, 0.0), (5.0, 10.0), (10.0, 0.0), (0.0, 6.5), (10.0, 6.5)]);
        assert!(!star.contains(at(5.0, 5.0)));
        assert!(star.contains(at(5.0, 8.0)));
    }

    #[test]
    fn the_middle_is_on_the_sphere() {
        let near = |a: Position, b: Position| a.distance_m(b) < 1.0;
        let square = polygon(&[(-1.0, -1.0), (1.0, -1.0), (1.0, 1.0), (-1.0, 1.0)]);
        assert!(near(square.middle(), at(0.0, 0.0)));
        let around_the_pole = polygon(&[(-120.0, 80.0), (0.0, 80.0), (120.0, 80.0)]);
        assert!(near(around_the_pole.middle(), at(0.0, 90.0)));
        let behind = polygon(&[(-170.0, 0.0), (170.0, 1.0), (170.0, -1.0)]);
        assert!(behind.middle().longitude.abs() > 170.0);
    }
}
