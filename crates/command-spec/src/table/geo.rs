//! Geographic indices: sorted sets whose scores are positions.

use crate::spec::{
    Arg, BeginSearch, Change, Deprecation, FindKeys, Group, KeySpec, Origin, Propagation, Spec,
    acl, always, flags, key_flags,
};

const BASE: Spec = Spec { group: Group::Geo, ..Spec::BLANK };

/// The commands of the group, by name.
pub(super) static COMMANDS: &[Spec] = &[
    Spec {
        name: "geoadd",
        arity: -5,
        flags: flags![WRITE DENYOOM],
        acl: acl![GEO],
        keys: &[KeySpec::one(1, key_flags![RW UPDATE])],
        propagation: Propagation::Rewritten(&[always("ZADD key score member ...")]),
        since: "3.2.0",
        summary: "Adds members with longitude and latitude, creating the index when the key is new.",
        complexity: "O(log(N)) for each member, N the size of the index.",
        arguments: &[
            Arg::key("key", 0),
            Arg::one_of("condition", &[Arg::word("nx", "NX"), Arg::word("xx", "XX")])
                .since("6.2.0")
                .optional(),
            Arg::word("change", "CH").since("6.2.0").optional(),
            Arg::block(
                "data",
                &[Arg::double("longitude"), Arg::double("latitude"), Arg::string("member")],
            )
            .multiple(),
        ],
        ..BASE
    },
    Spec {
        name: "geodist",
        arity: -4,
        flags: flags![READONLY],
        acl: acl![GEO],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "3.2.0",
        summary: "Returns the distance between two members.",
        complexity: "O(1)",
        arguments: &[
            Arg::key("key", 0),
            Arg::string("member1"),
            Arg::string("member2"),
            Arg::one_of(
                "unit",
                &[
                    Arg::word("m", "m"),
                    Arg::word("km", "km"),
                    Arg::word("ft", "ft"),
                    Arg::word("mi", "mi"),
                ],
            )
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "geohash",
        arity: -2,
        flags: flags![READONLY],
        acl: acl![GEO],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "3.2.0",
        summary: "Returns the positions of members as Geohash strings.",
        complexity: "O(1) for each member asked for.",
        arguments: &[Arg::key("key", 0), Arg::string("member").optional().multiple()],
        ..BASE
    },
    Spec {
        name: "geopos",
        arity: -2,
        flags: flags![READONLY],
        acl: acl![GEO],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "3.2.0",
        summary: "Returns the positions of members.",
        complexity: "O(1) for each member asked for.",
        arguments: &[Arg::key("key", 0), Arg::string("member").optional().multiple()],
        ..BASE
    },
    Spec {
        name: "georadius",
        arity: -6,
        flags: flags![WRITE DENYOOM MOVABLEKEYS],
        acl: acl![GEO],
        keys: &[
            KeySpec::one(1, key_flags![RO ACCESS]),
            KeySpec {
                begin: BeginSearch::Keyword { keyword: "STORE", start_from: 6 },
                find: FindKeys::Range { last: 0, step: 1, limit: 0 },
                flags: key_flags![OW UPDATE],
                notes: "",
            },
            KeySpec {
                begin: BeginSearch::Keyword { keyword: "STOREDIST", start_from: 6 },
                find: FindKeys::Range { last: 0, step: 1, limit: 0 },
                flags: key_flags![OW UPDATE],
                notes: "",
            },
        ],
        propagation: Propagation::Verbatim,
        since: "3.2.0",
        history: &[Change::new("7.0.0", "Names of units in upper case.")],
        summary: "Returns or stores the members within a distance of a position.",
        complexity: "O(N+log(M)), N the number of members in the box around the circle and M the size of the index.",
        deprecated: Some(Deprecation {
            since: "6.2.0",
            replaced_by: "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` argument",
        }),
        arguments: &[
            Arg::key("key", 0),
            Arg::double("longitude"),
            Arg::double("latitude"),
            Arg::double("radius"),
            Arg::one_of(
                "unit",
                &[
                    Arg::word("m", "m"),
                    Arg::word("km", "km"),
                    Arg::word("ft", "ft"),
                    Arg::word("mi", "mi"),
                ],
            ),
            Arg::word("withcoord", "WITHCOORD").optional(),
            Arg::word("withdist", "WITHDIST").optional(),
            Arg::word("withhash", "WITHHASH").optional(),
            Arg::block(
                "count-block",
                &[
                    Arg::integer("count").token("COUNT"),
                    Arg::word("any", "ANY").since("6.2.0").optional(),
                ],
            )
            .optional(),
            Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional(),
            Arg::one_of(
                "store",
                &[
                    Arg::key("storekey", 1).token("STORE"),
                    Arg::key("storedistkey", 2).token("STOREDIST"),
                ],
            )
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "georadius_ro",
        arity: -6,
        flags: flags![READONLY],
        acl: acl![GEO],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "3.2.10",
        history: &[Change::new("7.0.0", "Names of units in upper case.")],
        summary: "Returns the members within a distance of a position.",
        complexity: "O(N+log(M)), N the number of members in the box around the circle and M the size of the index.",
        deprecated: Some(Deprecation {
            since: "6.2.0",
            replaced_by: "`GEOSEARCH` with the `BYRADIUS` argument",
        }),
        arguments: &[
            Arg::key("key", 0),
            Arg::double("longitude"),
            Arg::double("latitude"),
            Arg::double("radius"),
            Arg::one_of(
                "unit",
                &[
                    Arg::word("m", "m"),
                    Arg::word("km", "km"),
                    Arg::word("ft", "ft"),
                    Arg::word("mi", "mi"),
                ],
            ),
            Arg::word("withcoord", "WITHCOORD").optional(),
            Arg::word("withdist", "WITHDIST").optional(),
            Arg::word("withhash", "WITHHASH").optional(),
            Arg::block(
                "count-block",
                &[
                    Arg::integer("count").token("COUNT"),
                    Arg::word("any", "ANY").since("6.2.0").optional(),
                ],
            )
            .optional(),
            Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional(),
        ],
        ..BASE
    },
    Spec {
        name: "georadiusbymember",
        arity: -5,
        flags: flags![WRITE DENYOOM MOVABLEKEYS],
        acl: acl![GEO],
        keys: &[
            KeySpec::one(1, key_flags![RO ACCESS]),
            KeySpec {
                begin: BeginSearch::Keyword { keyword: "STORE", start_from: 5 },
                find: FindKeys::Range { last: 0, step: 1, limit: 0 },
                flags: key_flags![OW UPDATE],
                notes: "",
            },
            KeySpec {
                begin: BeginSearch::Keyword { keyword: "STOREDIST", start_from: 5 },
                find: FindKeys::Range { last: 0, step: 1, limit: 0 },
                flags: key_flags![OW UPDATE],
                notes: "",
            },
        ],
        propagation: Propagation::Verbatim,
        since: "3.2.0",
        history: &[
            Change::new("6.2.0", "`COUNT` with `ANY`."),
            Change::new("7.0.0", "Names of units in upper case."),
        ],
        summary: "Returns or stores the members within a distance of a member.",
        complexity: "O(N+log(M)), N the number of members in the box around the circle and M the size of the index.",
        deprecated: Some(Deprecation {
            since: "6.2.0",
            replaced_by: "`GEOSEARCH` and `GEOSEARCHSTORE` with the `BYRADIUS` and `FROMMEMBER` arguments",
        }),
        arguments: &[
            Arg::key("key", 0),
            Arg::string("member"),
            Arg::double("radius"),
            Arg::one_of(
                "unit",
                &[
                    Arg::word("m", "m"),
                    Arg::word("km", "km"),
                    Arg::word("ft", "ft"),
                    Arg::word("mi", "mi"),
                ],
            ),
            Arg::word("withcoord", "WITHCOORD").optional(),
            Arg::word("withdist", "WITHDIST").optional(),
            Arg::word("withhash", "WITHHASH").optional(),
            Arg::block(
                "count-block",
                &[Arg::integer("count").token("COUNT"), Arg::word("any", "ANY").optional()],
            )
            .optional(),
            Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional(),
            Arg::one_of(
                "store",
                &[
                    Arg::key("storekey", 1).token("STORE"),
                    Arg::key("storedistkey", 2).token("STOREDIST"),
                ],
            )
            .optional(),
        ],
        ..BASE
    },
    Spec {
        name: "georadiusbymember_ro",
        arity: -5,
        flags: flags![READONLY],
        acl: acl![GEO],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "3.2.10",
        history: &[
            Change::new("6.2.0", "`COUNT` with `ANY`."),
            Change::new("7.0.0", "Names of units in upper case."),
        ],
        summary: "Returns the members within a distance of a member.",
        complexity: "O(N+log(M)), N the number of members in the box around the circle and M the size of the index.",
        deprecated: Some(Deprecation {
            since: "6.2.0",
            replaced_by: "`GEOSEARCH` with the `BYRADIUS` and `FROMMEMBER` arguments",
        }),
        arguments: &[
            Arg::key("key", 0),
            Arg::string("member"),
            Arg::double("radius"),
            Arg::one_of(
                "unit",
                &[
                    Arg::word("m", "m"),
                    Arg::word("km", "km"),
                    Arg::word("ft", "ft"),
                    Arg::word("mi", "mi"),
                ],
            ),
            Arg::word("withcoord", "WITHCOORD").optional(),
            Arg::word("withdist", "WITHDIST").optional(),
            Arg::word("withhash", "WITHHASH").optional(),
            Arg::block(
                "count-block",
                &[Arg::integer("count").token("COUNT"), Arg::word("any", "ANY").optional()],
            )
            .optional(),
            Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional(),
        ],
        ..BASE
    },
    Spec {
        name: "geosearch",
        arity: -7,
        flags: flags![READONLY],
        acl: acl![GEO],
        keys: &[KeySpec::one(1, key_flags![RO ACCESS])],
        since: "6.2.0",
        history: &[
            Change::new("7.0.0", "Names of units in upper case."),
            Change { origin: Origin::Valkey, ..Change::new("9.0.0", "`BYPOLYGON`.") },
        ],
        summary: "Returns the members inside a circle, a box or a polygon.",
        complexity: "O(N+log(M)), N the number of members in the box around the shape, times the number of vertices of a polygon, and M the size of the index.",
        arguments: &[
            Arg::key("key", 0),
            Arg::one_of(
                "from",
                &[
                    Arg::string("member").token("FROMMEMBER"),
                    Arg::block("fromlonlat", &[Arg::double("longitude"), Arg::double("latitude")])
                        .token("FROMLONLAT"),
                ],
            )
            .optional(),
            Arg::one_of(
                "by",
                &[
                    Arg::block(
                        "circle",
                        &[
                            Arg::double("radius").token("BYRADIUS"),
                            Arg::one_of(
                                "unit",
                                &[
                                    Arg::word("m", "m"),
                                    Arg::word("km", "km"),
                                    Arg::word("ft", "ft"),
                                    Arg::word("mi", "mi"),
                                ],
                            ),
                        ],
                    ),
                    Arg::block(
                        "box",
                        &[
                            Arg::double("width").token("BYBOX"),
                            Arg::double("height"),
                            Arg::one_of(
                                "unit",
                                &[
                                    Arg::word("m", "m"),
                                    Arg::word("km", "km"),
                                    Arg::word("ft", "ft"),
                                    Arg::word("mi", "mi"),
                                ],
                            ),
                        ],
                    ),
                    Arg::block(
                        "polygon",
                        &[
                            Arg::integer("num-vertices").token("BYPOLYGON"),
                            Arg::block(
                                "vertices",
                                &[Arg::double("longitude"), Arg::double("latitude")],
                            )
                            .multiple(),
                        ],
                    )
                    .since("9.0.0"),
                ],
            ),
            Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional(),
            Arg::block(
                "count-block",
                &[Arg::integer("count").token("COUNT"), Arg::word("any", "ANY").optional()],
            )
            .optional(),
            Arg::word("withcoord", "WITHCOORD").optional(),
            Arg::word("withdist", "WITHDIST").optional(),
            Arg::word("withhash", "WITHHASH").optional(),
        ],
        ..BASE
    },
    Spec {
        name: "geosearchstore",
        arity: -8,
        flags: flags![WRITE DENYOOM],
        acl: acl![GEO],
        keys: &[KeySpec::one(1, key_flags![OW UPDATE]), KeySpec::one(2, key_flags![RO ACCESS])],
        propagation: Propagation::Verbatim,
        since: "6.2.0",
        history: &[
            Change::new("7.0.0", "Names of units in upper case."),
            Change { origin: Origin::Valkey, ..Change::new("9.0.0", "`BYPOLYGON`.") },
        ],
        summary: "Stores the members inside a circle, a box or a polygon.",
        complexity: "O(N+log(M)), N the number of members in the box around the shape, times the number of vertices of a polygon, and M the size of the index.",
        arguments: &[
            Arg::key("destination", 0),
            Arg::key("source", 1),
            Arg::one_of(
                "from",
                &[
                    Arg::string("member").token("FROMMEMBER"),
                    Arg::block("fromlonlat", &[Arg::double("longitude"), Arg::double("latitude")])
                        .token("FROMLONLAT"),
                ],
            )
            .optional(),
            Arg::one_of(
                "by",
                &[
                    Arg::block(
                        "circle",
                        &[
                            Arg::double("radius").token("BYRADIUS"),
                            Arg::one_of(
                                "unit",
                                &[
                                    Arg::word("m", "m"),
                                    Arg::word("km", "km"),
                                    Arg::word("ft", "ft"),
                                    Arg::word("mi", "mi"),
                                ],
                            ),
                        ],
                    ),
                    Arg::block(
                        "box",
                        &[
                            Arg::double("width").token("BYBOX"),
                            Arg::double("height"),
                            Arg::one_of(
                                "unit",
                                &[
                                    Arg::word("m", "m"),
                                    Arg::word("km", "km"),
                                    Arg::word("ft", "ft"),
                                    Arg::word("mi", "mi"),
                                ],
                            ),
                        ],
                    ),
                    Arg::block(
                        "polygon",
                        &[
                            Arg::integer("num-vertices").token("BYPOLYGON"),
                            Arg::block(
                                "vertices",
                                &[Arg::double("longitude"), Arg::double("latitude")],
                            )
                            .multiple(),
                        ],
                    )
                    .since("9.0.0"),
                ],
            ),
            Arg::one_of("order", &[Arg::word("asc", "ASC"), Arg::word("desc", "DESC")]).optional(),
            Arg::block(
                "count-block",
                &[Arg::integer("count").token("COUNT"), Arg::word("any", "ANY").optional()],
            )
            .optional(),
            Arg::word("storedist", "STOREDIST").optional(),
        ],
        ..BASE
    },
];
