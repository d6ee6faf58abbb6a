//! The words at which commands break: numbers at the ends of their types and past them, nothing, and too
//! much.

/// What may stand where a command expects a number.
pub(crate) const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "1",
    "-1",
    "2",
    "-2",
    "9223372036854775807",
    "9223372036854775806",
    "-9223372036854775808",
    "-9223372036854775807",
    "9223372036854775808",
    "-9223372036854775809",
    "9223372036854775",
    "-9223372036854775",
    "18446744073709551615",
    "18446744073709551616",
    "4611686018427387904",
    "4294967295",
    "4294967296",
    "2147483647",
    "2147483648",
    "-2147483648",
    "-2147483649",
    "1e308",
    "-1e308",
    "1e400",
    "1.5",
    "inf",
    "-inf",
    "+inf",
    "nan",
    "",
    " 1",
    "+1",
    "0x10",
    "99999999999999999999999999999999999999999999999999999999999999999999999999999999999999999",
];

/// How long a huge argument is.
pub(crate) const HUGE_BYTES: usize = 1 << 20;

/// A number of as many digits as no type holds.
pub(crate) fn huge_number() -> Vec<u8> {
    vec![b'9'; HUGE_BYTES]
}

/// Bytes that are too many for a name.
pub(crate) fn huge_text() -> Vec<u8> {
    vec![b'x'; HUGE_BYTES]
}
