//! A value that remembers where it was written, so that a dangling reference can be shown later.

use std::fmt;
use std::ops::Deref;

use crate::{Node, Reader, Schema, SchemaBuilder, Setting, Span};

/// A value and its place. Two are equal when the values are: a moved line changes no plan.
#[derive(Clone, Debug)]
pub struct Spanned<T> {
    pub value: T,
    pub span: Span,
    /// False when something in it was wrong, or an environment variable in it is not set: then the
    /// value holds defaults that no document wrote.
    pub complete: bool,
}

impl<T> Spanned<T> {
    pub fn new(value: T, span: Span) -> Self {
        Spanned { value, span, complete: true }
    }
}

impl<T> Deref for Spanned<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: PartialEq> PartialEq for Spanned<T> {
    fn eq(&self, other: &Self) -> bool {
        self.value == other.value
    }
}

impl<T: Eq> Eq for Spanned<T> {}

impl<T: fmt::Display> fmt::Display for Spanned<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value.fmt(f)
    }
}

impl<T: Setting> Setting for Spanned<T> {
    fn schema(defs: &mut SchemaBuilder) -> Schema {
        T::schema(defs)
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let before = reader.report().failures();
        let value = T::read(node, reader)?;
        let complete = reader.report().failures() == before;
        Some(Spanned { value, span: node.span, complete })
    }
}
