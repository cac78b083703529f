//! What several modules and the scheduler do together.

mod scheduling;
mod scripts;
mod streams;
