//! The results of a run: `data.json`, `report.html`, the tables of the terminal, and the comparison
//! of two runs.
//!
//! Owns the presentation. Promises that every form is made from `data` alone, so that a file read
//! later shows what the run showed. Never measures.

mod absolute;
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
