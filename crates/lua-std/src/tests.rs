//! Several modules together with the scheduler.

mod compatibility;
mod debugger;
mod dom;
mod scheduling;
mod scripts;
mod streams;
