//! Several modules together with the scheduler.

mod compatibility;
mod console;
mod debug_adapter;
mod debugger;
mod dom;
mod handed_over;
mod scheduling;
mod scripts;
mod streams;
