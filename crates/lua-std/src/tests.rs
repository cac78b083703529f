//! Several modules together with the scheduler.

mod compatibility;
mod dom;
mod scheduling;
mod scripts;
mod streams;
