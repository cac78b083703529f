//! What several modules and the scheduler do together.

mod compatibility;
mod scheduling;
mod scripts;
mod streams;
