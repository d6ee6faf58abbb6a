//! Geographic indices: calls, and what redis-server 7.0.15 replies to them; polygons, which it lacks.

use crate::session::Session;
use resp::Protocol;

#[test]
fn replies_are_those_of_redis() {
    let mut session = Session::new();
    let mut lines = include_str!("geo.txt").lines();
    let mut calls = 0;
    while let (Some(call), Some(expected)) = (lines.next(), lines.next()) {
        let call = call.strip_prefix("> ").expect("calls and replies in turn");
        assert_eq!(session.run(call), expected, "{call}");
        calls += 1;
    }
    assert!(calls > 200, "{calls} calls");
}

#[test]
fn coordinates_are_numbers_in_resp3_and_distances_are_texts() {
    let mut session = Session::new();
    session.protocol = Protocol::Resp3;
    session.run("GEOADD g 13.361389 38.115556 a 15.087269 37.502669 b");
    assert_eq!(session.run("GEOPOS g a x"), "*2 *2 ,13.36138933897018433 ,38.11555639549629859 _");
    assert_eq!(session.run("GEODIST g a b"), "$11 166274.1516");
    assert_eq!(session.events(), ["zadd g"]);
}

/// Part of Sydney with seven places, and a polygon that has three of them: those of Valkey's tests.
const SYDNEY: &str = "GEOADD g 151.20932132005692 -33.877723137822436 elizabeth 151.2119820713997 -33.87697539508043 \
    connaught 151.2119820713997 -33.87156123068408 james 151.2229523062706 -33.883973760201364 oxford \
    151.22852593660355 -33.88116782387797 goodhope 151.2224105000496 -33.87544442350019 kings \
    151.22953444719315 -33.874838625143106 bartley";
const AREA: &str = "BYPOLYGON 11 151.21619137411474 -33.869643764947696 151.20408853981647 -33.87845382042545 \
    151.2123775086366 -33.87864711938855 151.21046943124387 -33.87588862400425 151.21701035939626 \
    -33.874286511854834 151.2239557405701 -33.8735722632175 151.22495056246407 -33.87893571656996 \
    151.2274447496748 -33.882307713036354 151.23212935868654 -33.88136096120022 151.23097291274465 \
    -33.87456240592362 151.22475424781445 -33.87099633192101";
/// The same places in a polygon whose edges cross each other.
const STAR: &str = "BYPOLYGON 5 151.2154285314146 -33.867438205607186 151.20024487595015 -33.88138572784347 \
    151.2374118848648 -33.87601765283626 151.19695829592922 -33.87272872054441 151.2278336546125 \
    -33.88345323146266";

#[test]
fn polygons_have_what_is_inside() {
    let mut session = Session::new();
    session.run(SYDNEY);
    let found = session.run(&format!("GEOSEARCH g {AREA}"));
    assert_eq!(found, "*3 $8 goodhope $7 bartley $9 elizabeth");
    assert_eq!(
        session.run(&format!("GEOSEARCH g {AREA} WITHDIST WITHCOORD DESC")),
        "*3 *3 $9 elizabeth $9 1035.7735 *2 $21 151.20932132005691528 $21 -33.87772313782243572 \
         *3 $8 goodhope $8 929.4979 *2 $21 151.22852593660354614 $21 -33.88116782387797343 \
         *3 $7 bartley $8 858.3013 *2 $21 151.22953444719314575 $21 -33.87483862514310573"
    );
    let found = session.run(&format!("GEOSEARCH g COUNT 2 {AREA}"));
    assert_eq!(found, "*2 $7 bartley $8 goodhope", "the nearest to the middle");
    let stored = session.run(&format!("GEOSEARCHSTORE d g {AREA} ASC STOREDIST COUNT 2"));
    assert_eq!(stored, ":2");
    assert_eq!(session.run("ZRANGE d 0 -1"), "*2 $7 bartley $8 goodhope");
    let found = session.run(&format!("GEOSEARCH g {STAR}"));
    assert_eq!(found, "*3 $9 elizabeth $5 james $5 kings");
    let triangle = "BYPOLYGON 3 0 0 1 0 0 1";
    assert_eq!(session.run(&format!("GEOSEARCHSTORE d g {triangle}")), ":0");
    assert_eq!(session.run("EXISTS d"), ":0");
    assert_eq!(session.run(&format!("GEOSEARCH missing {triangle}")), "*0");
}

#[test]
fn a_polygon_is_a_shape_by_itself() {
    let mut session = Session::new();
    session.run(SYDNEY);
    let few = "-ERR GEOSEARCH BYPOLYGON must have at least 3 vertices";
    for (count, is_refused) in [(1000, false), (1001, true)] {
        let call = format!("GEOSEARCH g BYPOLYGON {count}{}", " 1 1".repeat(count));
        let many = "-ERR GEOSEARCH BYPOLYGON must have at most 1000 vertices";
        assert_eq!(session.run(&call) == many, is_refused, "{count}");
    }
    for (options, expected) in [
        ("BYPOLYGON 2 0 0 1 1", few),
        ("BYPOLYGON -3 0 0 1 1", few),
        ("BYPOLYGON 3 0 0 1 1", few),
        ("BYPOLYGON 2147483647 0 0 1 1 2 2", few),
        ("BYPOLYGON 2147483648 0 0 1 1 2 2", "-ERR invalid number of vertices"),
        ("BYPOLYGON three 0 0 1 1 2 2", "-ERR invalid number of vertices"),
        ("BYPOLYGON 3 0 0 1 1 2 86", "-ERR invalid longitude,latitude pair 2.000000,86.000000"),
        ("BYPOLYGON 3 0 0 1 1 2 x", "-ERR value is not a valid float"),
        ("BYPOLYGON 3 0 0 1 1 2 2 3 3", "-ERR syntax error"),
        ("BYPOLYGON 3 0 0 1 1 2 2 BYBOX 4 4 km", "-ERR syntax error"),
        ("BYPOLYGON 3 0 0 1 1 2 2 BYRADIUS 4 km", "-ERR syntax error"),
        ("BYBOX 4 4 km BYPOLYGON 3 0 0 1 1 2 2", "-ERR syntax error"),
        ("BYRADIUS 4 km BYPOLYGON 3 0 0 1 1 2 2", "-ERR syntax error"),
        ("BYPOLYGON 3 0 0 1 1 2 2 FROMLONLAT 1 1", "-ERR syntax error"),
        ("BYPOLYGON 3 0 0 1 1 2 2 FROMMEMBER james", "-ERR syntax error"),
        ("FROMLONLAT 1 1 BYPOLYGON 3 0 0 1 1 2 2", "-ERR syntax error"),
        ("FROMMEMBER james BYPOLYGON 3 0 0 1 1 2 2", "-ERR syntax error"),
        ("ASC WITHDIST WITHHASH BYPOLYGON 3", "-ERR syntax error"),
        ("BYPOLYGON 3 0 0 1 1 2 2 ANY", "-ERR the ANY argument requires COUNT argument"),
    ] {
        assert_eq!(session.run(&format!("GEOSEARCH g {options}")), expected, "{options}");
        assert_eq!(session.run(&format!("GEOSEARCHSTORE d g {options}")), expected, "{options}");
    }
    let radius = "GEORADIUS g 1 1 1 km BYPOLYGON 3 0 0 1 1 2 2";
    assert_eq!(session.run(radius), "-ERR syntax error");
}

/// Numbers that look random, the same in every run.
struct Numbers(u64);

impl Numbers {
    /// From zero to just below one.
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        f64::from(u32::try_from(self.0 >> 32).expect("32 bits")) / 4_294_967_296.0
    }

    fn position(&mut self, middle: (f64, f64), size: f64) -> (f64, f64) {
        let (x, y) = (self.next() - 0.5, self.next() - 0.5);
        let longitude = (middle.0 + 360.0 * size * x).clamp(-179.9, 179.9);
        (longitude, (middle.1 + 170.0 * size * y).clamp(-85.0, 85.0))
    }
}

/// Whether a ray to the north crosses an odd number of edges: the server's goes to the east.
fn is_inside(vertices: &[(f64, f64)], (longitude, latitude): (f64, f64)) -> bool {
    let ends = vertices.iter().cycle().skip(1);
    let crossed = vertices.iter().zip(ends).filter(|(from, to)| {
        let (west, east) = if from.0 < to.0 { (from, to) } else { (to, from) };
        let part = (longitude - west.0) / (east.0 - west.0);
        (west.0..east.0).contains(&longitude) && west.1 + part * (east.1 - west.1) > latitude
    });
    crossed.count() % 2 == 1
}

#[test]
fn polygons_of_all_sizes_have_what_a_model_has() {
    let mut session = Session::new();
    let mut numbers = Numbers(20_250_905);
    let mut places: Vec<(f64, f64)> = Vec::new();
    for number in 0..2000 {
        let (longitude, latitude) = numbers.position((0.0, 0.0), 1.0);
        session.run(&format!("GEOADD g {longitude} {latitude} {number}"));
        let reply = session.run(&format!("GEOPOS g {number}"));
        let words: Vec<&str> = reply.split(' ').collect();
        places.push((words[3].parse().expect("degrees"), words[5].parse().expect("degrees")));
    }
    let (mut inside, mut searched) = (0, 0);
    for round in 0..400 {
        let size = [1.0, 0.3, 0.1, 0.02][round % 4];
        let middle = numbers.position((0.0, 0.0), 1.0);
        let vertices: Vec<(f64, f64)> =
            (0..3 + round % 6).map(|_| numbers.position(middle, size)).collect();
        let area: String = vertices
            .iter()
            .map(|(longitude, latitude)| format!(" {longitude} {latitude}"))
            .collect();
        let found = session.run(&format!("GEOSEARCH g BYPOLYGON {}{area}", vertices.len()));
        let mut found: Vec<usize> = found
            .split(' ')
            .filter(|word| !word.starts_with(['*', '$']))
            .map(|word| word.parse().expect("a member"))
            .collect();
        found.sort_unstable();
        let expected: Vec<usize> =
            (0..places.len()).filter(|place| is_inside(&vertices, places[*place])).collect();
        assert_eq!(found, expected, "{vertices:?}");
        inside += found.len();
        searched += usize::from(!found.is_empty());
    }
    assert!(inside > 20_000 && searched > 150, "{inside} in {searched}");
}
