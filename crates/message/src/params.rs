//! What the parameters of a route's path matched, as ranges of the path: nothing is copied.

use std::sync::Arc;

/// Parameters one path may have.
pub const PARAMS_MAX: usize = 16;

/// Names come from the route, values from the path.
#[derive(Clone, Debug, Default)]
pub struct Params {
    names: Option<Arc<[Box<str>]>>,
    ranges: [(u16, u16); PARAMS_MAX],
}

impl Params {
    /// `ranges` are byte ranges of the normalised path, one for each name.
    pub fn new(names: Arc<[Box<str>]>, ranges: &[(u16, u16)]) -> Params {
        debug_assert!(names.len() == ranges.len() && ranges.len() <= PARAMS_MAX);
        let mut params = Params { names: Some(names), ..Params::default() };
        for (place, range) in params.ranges.iter_mut().zip(ranges) {
            *place = *range;
        }
        params
    }

    /// Forgets them; ranges without names say nothing.
    pub(crate) fn clear(&mut self) {
        self.names = None;
    }

    /// The text a parameter matched in `path`, the path the route was chosen by.
    pub fn get<'p>(&self, path: &'p str, name: &str) -> Option<&'p str> {
        let index = self.names.as_ref()?.iter().position(|known| **known == *name)?;
        let (from, to) = self.ranges[index];
        path.get(usize::from(from)..usize::from(to))
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().flat_map(|names| names.iter()).map(|name| &**name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_ranges_of_the_path() {
        let names: Arc<[Box<str>]> = Arc::from(vec![Box::from("id"), Box::from("rest")]);
        let params = Params::new(names, &[(3, 5), (6, 9)]);
        assert_eq!(params.get("/a/42/b/c", "id"), Some("42"));
        assert_eq!(params.get("/a/42/b/c", "rest"), Some("b/c"));
        assert_eq!(params.get("/a/42/b/c", "other"), None);
    }
}
