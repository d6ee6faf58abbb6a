//! The common name in a certificate, for `tls-auth-clients-user`.
//!
//! ```text
//!   Certificate { tbsCertificate { [version] serial algorithm issuer validity subject … } … }
//!                                                                          │
//!                                              { {type value} … } ◄────────┘  commonName: 2.5.4.3
//! ```
//!
//! DER as far as it takes to get there: a type, a length, and what it is of. The certificate was
//! verified before, so its form is right; where it is not, there is no name.

/// Tags of ASN.1.
const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const OBJECT_ID: u8 = 0x06;
const EXPLICIT_VERSION: u8 = 0xa0;
/// Text in UTF-8 or a part of it: UTF8String, PrintableString, IA5String, and TeletexString as
/// OpenSSL takes it.
const TEXTS: [u8; 4] = [0x0c, 0x13, 0x16, 0x14];

/// 2.5.4.3.
const COMMON_NAME: &[u8] = &[0x55, 0x04, 0x03];

/// Longer names are no names: X.520 has 64 letters at most.
const NAME_BYTES_MAX: usize = 256;

/// What of DER was not read yet.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The next element: its tag and its content.
    fn next(&mut self) -> Option<(u8, &'a [u8])> {
        let [tag, first, rest @ ..] = self.0 else { return None };
        let (length, rest) = match *first {
            short @ 0..0x80 => (usize::from(short), rest),
            long => {
                let count = usize::from(long & 0x7f);
                if !(1..=4).contains(&count) {
                    return None;
                }
                let (bytes, rest) = rest.split_at_checked(count)?;
                (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
            }
        };
        let (content, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some((*tag, content))
    }

    /// The content of the next element, which is of this kind.
    fn expect(&mut self, tag: u8) -> Option<Der<'a>> {
        self.next().filter(|(it, _)| *it == tag).map(|(_, content)| Der(content))
    }
}

/// Returns the common name of the subject, the first one if there are several.
pub(super) fn common_name(certificate: &[u8]) -> Option<&[u8]> {
    let mut fields = Der(certificate).expect(SEQUENCE)?.expect(SEQUENCE)?;
    if fields.0.first() == Some(&EXPLICIT_VERSION) {
        fields.next()?;
    }
    for _serial_algorithm_issuer_validity in 0..4 {
        fields.next()?;
    }
    let mut subject = fields.expect(SEQUENCE)?;
    while let Some((SET, names)) = subject.next() {
        let mut names = Der(names);
        while let Some((SEQUENCE, name)) = names.next() {
            let mut name = Der(name);
            if name.next() == Some((OBJECT_ID, COMMON_NAME)) {
                return name.next().filter(is_name).map(|(_, text)| text);
            }
        }
    }
    None
}

fn is_name((tag, text): &(u8, &[u8])) -> bool {
    let is_short = (1..=NAME_BYTES_MAX).contains(&text.len());
    TEXTS.contains(tag) && is_short && !text.contains(&0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn element(tag: u8, content: &[u8]) -> Vec<u8> {
        let length = u8::try_from(content.len()).unwrap();
        let long: &[u8] = if length < 0x80 { &[] } else { &[0x81] };
        [&[tag], long, &[length], content].concat()
    }

    fn attribute(id: &[u8], tag: u8, text: &[u8]) -> Vec<u8> {
        let pair = [element(OBJECT_ID, id), element(tag, text)].concat();
        element(SET, &element(SEQUENCE, &pair))
    }

    fn certificate(subject: &[Vec<u8>], has_version: bool) -> Vec<u8> {
        let issuer = attribute(COMMON_NAME, 0x0c, b"authority");
        let version = if has_version { element(EXPLICIT_VERSION, &[2, 1, 2]) } else { Vec::new() };
        let fields = [
            version,
            element(2, &[1]),
            element(SEQUENCE, &[5, 0]),
            element(SEQUENCE, &issuer),
            element(SEQUENCE, &[]),
            element(SEQUENCE, &subject.concat()),
        ];
        element(SEQUENCE, &element(SEQUENCE, &fields.concat()))
    }

    #[test]
    fn the_subjects_common_name_is_found() {
        let organization = attribute(&[0x55, 0x04, 0x0a], 0x0c, b"Example");
        let name = attribute(COMMON_NAME, 0x13, b"alice");
        for has_version in [true, false] {
            let der = certificate(&[organization.clone(), name.clone()], has_version);
            assert_eq!(common_name(&der), Some(b"alice".as_slice()));
        }
        assert_eq!(common_name(&certificate(&[organization], true)), None);
    }

    #[test]
    fn what_could_be_taken_for_another_name_is_none() {
        for text in [b"alice\0.example".as_slice(), b""] {
            assert_eq!(
                common_name(&certificate(&[attribute(COMMON_NAME, 0x0c, text)], true)),
                None
            );
        }
        // UTF-16, which no user's name is written in.
        assert_eq!(common_name(&certificate(&[attribute(COMMON_NAME, 0x1e, b"\0a")], true)), None);
    }

    #[test]
    fn what_is_cut_off_anywhere_has_no_name_and_does_no_harm() {
        let whole = certificate(&[attribute(COMMON_NAME, 0x0c, b"alice")], true);
        for end in 0..whole.len() {
            assert_eq!(common_name(&whole[..end]), None);
        }
        for at in 0..whole.len() {
            for byte in [0, 0x7f, 0x80, 0x81, 0x84, 0xff] {
                let mut changed = whole.clone();
                changed[at] = byte;
                let _whatever_it_is = common_name(&changed);
            }
        }
    }
}
