//! The rules of the house, as tests: which room imports what, and what a file may look like.

mod layers;
mod rows;
mod source;
mod tidy;
