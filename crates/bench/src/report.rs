//! What a run leaves behind: `data.json`, `report.html`, the tables of the terminal, and whether
//! two runs differ.
//!
//! Owns every form a figure is shown in. Promises that all of them come from `data` alone, so
//! that a file read later shows what the run showed. Never measures.

mod bars;
pub mod compare;
pub mod data;
mod figures;
pub mod html;
pub mod page;
pub mod published;
mod results;
#[cfg(test)]
mod sample;
mod table;
pub mod terminal;
