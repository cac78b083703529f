//! The identity that a request was authenticated as.

use std::rc::Rc;

/// A client that has authenticated: its entry in `consumers`, or only a name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Consumer {
    pub name: Box<str>,
    pub groups: Vec<Box<str>>,
    pub labels: Vec<(Box<str>, Box<str>)>,
}

impl Consumer {
    /// A consumer of which only the name is known.
    pub fn named(name: &str) -> Rc<Consumer> {
        Rc::new(Consumer { name: name.into(), ..Consumer::default() })
    }

    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        self.labels.iter().find(|(label, _)| **label == *name).map(|(_, value)| &**value)
    }
}

/// The claims of a verified token as pairs of name and text. A list has a pair for each item; a
/// member of an object has the names on its path, joined by dots.
pub type Claims = Rc<[(Box<str>, Box<str>)]>;
