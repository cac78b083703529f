//! A header section that is kept for long and used by every worker.
//!
//! Two blocks of exactly the size of what is in them; a section to work with is two copies away.

use wire::h1::FieldSpan;

use super::Headers;

/// Fields that do not change any more.
#[derive(Clone, Debug, Default)]
pub struct SharedHeaders {
    pub(super) text: Box<[u8]>,
    pub(super) fields: Box<[FieldSpan]>,
}

impl SharedHeaders {
    /// A section of its own with these fields.
    pub fn headers(&self) -> Headers {
        match self.fields.is_empty() {
            true => Headers::new(),
            false => Headers::received(&self.text, &self.fields),
        }
    }

    /// What it takes in memory besides itself.
    pub fn bytes(&self) -> usize {
        self.blocks().iter().sum()
    }

    /// The sizes of the blocks that it takes besides itself.
    pub fn blocks(&self) -> [usize; 2] {
        [self.text.len(), size_of_val(&*self.fields)]
    }
}

impl From<&Headers> for SharedHeaders {
    /// Only the fields that are there are kept, not the text of those that were removed.
    fn from(headers: &Headers) -> SharedHeaders {
        let mut tight = Headers::new();
        for field in headers.iter() {
            tight.append(field.name, field.value);
        }
        SharedHeaders { text: tight.text().into(), fields: tight.fields().into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back_in_order_and_removed_ones_take_no_room() {
        let mut headers = Headers::new();
        headers.append("Vary", "a");
        headers.append("x-gone", "a long value that is removed");
        headers.append("Vary", "b");
        headers.remove("x-gone");
        let kept = SharedHeaders::from(&headers);
        let mut behind_others = Headers::new();
        behind_others.append("x-first", "1");
        behind_others.append_all(&kept);
        assert_eq!(behind_others.get_all("vary").collect::<Vec<_>>(), [b"a", b"b"]);
        assert_eq!((behind_others.get("x-first"), behind_others.len()), (Some(&b"1"[..]), 3));
        let back = kept.headers();
        assert_eq!(back.get_all("vary").collect::<Vec<_>>(), [b"a", b"b"]);
        assert_eq!((back.len(), kept.text.windows(4).any(|four| four == b"gone")), (2, false));
    }
}
