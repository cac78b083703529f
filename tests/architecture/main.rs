//! The architecture rules as tests: crate imports, file size and contents, plain words.

mod doctests;
mod layers;
mod links;
mod rows;
mod shared_build;
mod source;
mod tidy;
mod words;
