//! Extensible priorities (RFC 9218): the urgency of a response, and whether parts of it are useful.

use sfv::{BareItem, Dictionary, ListEntry, Parser};

/// Priority parameters of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Priority {
    /// From 0, the most urgent, to 7.
    pub urgency: u8,
    /// The client can use a part of the response, so it may share the connection.
    pub incremental: bool,
}

impl Default for Priority {
    fn default() -> Priority {
        Priority { urgency: 3, incremental: false }
    }
}

impl Priority {
    /// Parses the value of `Priority` or of PRIORITY_UPDATE. Unknown members and values out of
    /// range are ignored. So is the whole value if it is not a dictionary (RFC 9218 4).
    pub fn parse(value: &[u8]) -> Priority {
        Priority::default().with_response(value)
    }

    /// The priority with the parameters that a response states of its own, which count more than
    /// the client's (RFC 9218 8).
    pub fn with_response(mut self, value: &[u8]) -> Priority {
        match value {
            // The values that browsers send, without an allocation.
            [b'u', b'=', urgency @ b'0'..=b'7', rest @ ..] if matches!(rest, b"" | b", i") => {
                self.urgency = urgency - b'0';
                self.incremental |= !rest.is_empty();
            }
            b"i" => self.incremental = true,
            _ => self.parse_members(value),
        }
        self
    }

    fn parse_members(&mut self, value: &[u8]) {
        let members = Parser::new(value).parse::<Dictionary>().unwrap_or_default();
        for (key, member) in members {
            let ListEntry::Item(item) = member else { continue };
            match (key.as_str(), item.bare_item) {
                ("u", BareItem::Integer(urgency)) => {
                    if let Ok(urgency @ 0..=7) = urgency.try_into() {
                        self.urgency = urgency;
                    }
                }
                ("i", BareItem::Boolean(incremental)) => self.incremental = incremental,
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Priority;

    #[test]
    fn members_are_read_and_what_is_unknown_is_ignored() {
        let table: [(&str, u8, bool); 13] = [
            ("", 3, false),
            ("u=0", 0, false),
            ("u=7, i", 7, true),
            ("i", 3, true),
            ("i, u=2", 2, true),
            ("u=5;x=1,i=?1", 5, true),
            ("i=?0", 3, false),
            ("u=8", 3, false),
            ("u=-1, i", 3, true),
            ("u=1.5", 3, false),
            ("i=1", 3, false),
            ("u=1, u=4", 4, false),
            ("u=1, =", 3, false),
        ];
        for (value, urgency, incremental) in table {
            let parsed = Priority::parse(value.as_bytes());
            assert_eq!(parsed, Priority { urgency, incremental }, "{value}");
        }
    }

    #[test]
    fn a_response_overrides_what_it_states() {
        let asked = Priority { urgency: 5, incremental: true };
        for (value, urgency, incremental) in
            [("", 5, true), ("u=1", 1, true), ("i=?0", 5, false), ("u=0, i=?0", 0, false)]
        {
            let overridden = asked.with_response(value.as_bytes());
            assert_eq!(overridden, Priority { urgency, incremental }, "{value}");
        }
    }
}
