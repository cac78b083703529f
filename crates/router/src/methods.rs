//! Sets of methods as bits.
//!
//! Owns the bit of each method: those of RFC 9110 and PATCH first, then the other ones that routes
//! name; all unnamed methods share the highest bit. Promises that GET includes HEAD, as RFC 9110
//! 9.1 requires of general-purpose servers and nginx does.

use wire::Method;

/// A set of methods, one bit each.
pub(crate) type Mask = u64;

/// All methods, including unknown ones.
pub(crate) const ANY: Mask = Mask::MAX;
/// The bit of a method that no route names.
const UNNAMED: Mask = 1 << 63;

const KNOWN: [Method; 9] = [
    Method::Get,
    Method::Head,
    Method::Post,
    Method::Put,
    Method::Delete,
    Method::Options,
    Method::Trace,
    Method::Patch,
    Method::Connect,
];

/// The methods beyond the known ones that routes name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Methods {
    named: Vec<Method>,
}

impl Methods {
    /// The bit of a method in a request.
    pub(crate) fn bit(&self, method: &Method) -> Mask {
        match method {
            Method::Get => 1,
            Method::Head => 1 << 1,
            Method::Post => 1 << 2,
            Method::Put => 1 << 3,
            Method::Delete => 1 << 4,
            Method::Options => 1 << 5,
            Method::Trace => 1 << 6,
            Method::Patch => 1 << 7,
            Method::Connect => 1 << 8,
            other => match self.named.iter().position(|named| named == other) {
                Some(at) => 1 << (KNOWN.len() + at),
                None => UNNAMED,
            },
        }
    }

    /// The set that a route names; an empty list is every method. `None` if there are too many.
    pub(crate) fn mask<'m>(&mut self, methods: impl Iterator<Item = &'m Method>) -> Option<Mask> {
        let mut mask = 0;
        for method in methods {
            if self.bit(method) == UNNAMED {
                if self.named.len() == crate::limits::METHODS_MAX {
                    return None;
                }
                self.named.push(method.clone());
            }
            mask |= self.bit(method);
            if *method == Method::Get {
                mask |= self.bit(&Method::Head);
            }
        }
        Some(if mask == 0 { ANY } else { mask })
    }

    /// The value of Allow (RFC 9110 10.2.1).
    pub(crate) fn list(&self, mask: Mask) -> String {
        let allowed = KNOWN.iter().chain(&self.named).filter(|method| mask & self.bit(method) != 0);
        allowed.map(Method::as_str).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::{ANY, KNOWN, Methods, UNNAMED};
    use wire::Method;

    #[test]
    fn bits_differ_and_get_includes_head() {
        let mut methods = Methods::default();
        let purge = Method::from_bytes(b"PURGE");
        assert_eq!(methods.bit(&purge), UNNAMED);
        let mask = methods.mask([Method::Get, purge.clone()].iter()).unwrap();
        assert_eq!(methods.list(mask), "GET, HEAD, PURGE");
        assert_eq!(methods.bit(&Method::from_bytes(b"get")), UNNAMED);
        let bits: u64 = KNOWN.iter().map(|method| methods.bit(method)).sum();
        assert_eq!(bits.count_ones() as usize, KNOWN.len());
        assert_eq!(methods.mask([].iter()), Some(ANY));
    }

    #[test]
    fn no_more_than_there_are_bits() {
        let mut methods = Methods::default();
        let many: Vec<_> =
            (0..60).map(|n| Method::from_bytes(format!("M{n}").as_bytes())).collect();
        assert_eq!(methods.mask(many.iter()), None);
        let mask = methods.mask(many[..54].iter()).unwrap();
        assert_eq!((mask.count_ones(), mask & UNNAMED), (54, 0));
    }
}
