//! The architecture rules as tests: crate imports, file size and contents, plain words.

mod doctests;
mod layers;
mod links;
mod rows;
mod source;
mod tidy;
mod words;
