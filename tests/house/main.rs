//! The rules of the house, as tests: which room imports what, and what a file may look like.

mod rooms;
mod source;
mod tidy;
