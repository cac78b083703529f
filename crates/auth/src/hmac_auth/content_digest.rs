//! The field Content-Digest (RFC 9530 2): what it says, and whether a content has these digests.

use message::Headers;
use sfv::{BareItem, Dictionary, Item, ListEntry, Parser};
use sha2::{Digest as _, Sha256, Sha512};

use super::Invalid;

/// The digests of a content that the field names.
pub(crate) struct ContentDigest {
    sha256: Option<Vec<u8>>,
    sha512: Option<Vec<u8>>,
}

impl ContentDigest {
    /// Reads the field. Algorithms that are not secure (RFC 9530 5) do not count.
    pub(crate) fn of(headers: &Headers) -> Result<ContentDigest, Invalid> {
        let value = headers.joined("content-digest").ok_or("there is no Content-Digest")?;
        let members = Parser::new(&value).parse::<Dictionary>();
        let members = members.map_err(|_| "Content-Digest is not a dictionary")?;
        let digest = |name: &str| match members.get(name) {
            None => Ok(None),
            Some(ListEntry::Item(Item { bare_item: BareItem::ByteSequence(digest), .. })) => {
                Ok(Some(digest.clone()))
            }
            Some(_) => Err("a member of Content-Digest is not a digest"),
        };
        let found = ContentDigest { sha256: digest("sha-256")?, sha512: digest("sha-512")? };
        match (&found.sha256, &found.sha512) {
            (None, None) => Err("Content-Digest has neither sha-256 nor sha-512"),
            _ => Ok(found),
        }
    }

    /// True if a content has all of the digests.
    pub(crate) fn matches(&self, content: &[u8]) -> bool {
        let is_256 = |digest: &Vec<u8>| Sha256::digest(content)[..] == digest[..];
        let is_512 = |digest: &Vec<u8>| Sha512::digest(content)[..] == digest[..];
        self.sha256.as_ref().is_none_or(is_256) && self.sha512.as_ref().is_none_or(is_512)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Result<ContentDigest, Invalid> {
        let mut headers = Headers::new();
        values.iter().for_each(|value| headers.append("content-digest", value));
        ContentDigest::of(&headers)
    }

    /// RFC 9530 appendix B.1 and D.
    const CONTENT: &[u8] = b"{\"hello\": \"world\"}\n";
    const SHA256: &str = "sha-256=:RK/0qy18MlBSVnWgjwz6lZEWjP/lF5HF9bvEF8FabDg=:";
    const SHA512: &str = "sha-512=:YMAam51Jz/jOATT6/zvHrLVgOYTGFy1d6GJiOHTohq4yP+pgk4vf2aCs\
                          yRZOtw8MjkM7iw7yZ/WkppmM44T3qg==:";

    #[test]
    fn digests_of_rfc_9530_match_their_content_only() {
        for values in [&[SHA256][..], &[SHA512], &[SHA256, SHA512], &["md5=:AA==:", SHA256]] {
            let digest = of(values).unwrap();
            assert!(digest.matches(CONTENT), "{values:?}");
            assert!(!digest.matches(b"{\"hello\": \"world\"}"), "{values:?}");
        }
        let wrong = "sha-512=:AAAA:";
        assert!(!of(&[SHA256, wrong]).unwrap().matches(CONTENT));
        for values in [
            &[][..],
            &[""],
            &["md5=:AA==:"],
            &["sha-256"],
            &["sha-256=\"x\""],
            &["sha-256=(:AA==:)"],
            &["sha-256=:AA=="],
            &["SHA-256=:AA==:"],
        ] {
            assert!(of(values).is_err(), "{values:?}");
        }
    }
}
