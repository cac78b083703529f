//! What a script has set of a response that it was given, apart from the content.
//!
//! The fields that describe a content belong to it: they go when the script replaces it, except for
//! those that it has set itself.

use message::{Headers, Name};
use wire::Known;

/// Fields that describe the content, or the ranges of it.
const DESCRIBING: [Name<'static>; 11] = [
    Name::Known(Known::ContentType),
    Name::Known(Known::ContentLength),
    Name::Known(Known::ContentEncoding),
    Name::Known(Known::ContentRange),
    Name::Known(Known::AcceptRanges),
    Name::Known(Known::Etag),
    Name::Known(Known::LastModified),
    Name::Known(Known::ContentMd5),
    Name::Known(Known::ContentDigest),
    Name::Known(Known::ReprDigest),
    Name::Other(b"Digest"),
];

/// The bit of the status.
const STATUS: u16 = 1 << DESCRIBING.len();

/// What the script has set: one bit for each describing field, and one for the status.
#[derive(Clone, Copy, Default)]
pub(super) struct OwnFields(u16);

impl OwnFields {
    /// Remembers that a field was set, or removed.
    pub(super) fn set_field(&mut self, name: Name<'_>, is_set: bool) {
        let known = |describing: &Name<'_>| match (*describing, name) {
            (Name::Known(one), Name::Known(other)) => one == other,
            (Name::Other(one), Name::Other(other)) => one.eq_ignore_ascii_case(other),
            _ => false,
        };
        if let Some(at) = DESCRIBING.iter().position(known) {
            self.0 = self.0 & !(1 << at) | u16::from(is_set) << at;
        }
    }

    pub(super) fn set_status(&mut self) {
        self.0 |= STATUS;
    }

    /// Forgets the fields.
    pub(super) fn clear_fields(&mut self) {
        self.0 &= STATUS;
    }

    pub(super) fn has_content_type(self) -> bool {
        self.0 & 1 != 0
    }

    pub(super) fn has_status(self) -> bool {
        self.0 & STATUS != 0
    }

    /// Removes the fields that describe the content that is replaced. A media type stays for
    /// content that has none of its own.
    pub(super) fn remove_others(self, headers: &mut Headers) {
        for (at, name) in DESCRIBING.iter().enumerate().skip(1) {
            if self.0 & 1 << at == 0 {
                headers.remove(*name);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::OwnFields;
    use message::{Headers, Name};
    use wire::Known;

    #[test]
    fn fields_of_the_replaced_content_go_unless_they_were_set() {
        let mut headers = Headers::new();
        for name in ["content-type", "etag", "DIGEST", "content-range", "last-modified", "server"] {
            headers.append(name, "x");
        }
        let mut own = OwnFields::default();
        own.set_field(Name::from("digest"), true);
        own.set_field(Name::from("ETag"), true);
        own.set_field(Name::from("etag"), false);
        own.set_field(Name::from("server"), true);
        own.remove_others(&mut headers);
        let left: Vec<_> = headers.iter().map(|field| field.name.to_vec()).collect();
        assert_eq!(left, [&b"Content-Type"[..], b"DIGEST", b"Server"]);
        own.set_field(Name::Known(Known::ContentType), true);
        own.set_status();
        assert!(own.has_content_type() && own.has_status());
        own.clear_fields();
        assert!(!own.has_content_type() && own.has_status());
    }
}
