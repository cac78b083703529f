//! What a run leaves behind: `data.json`, `report.html`, the tables of the terminal, and whether
//! two runs differ.
//!
//! Owns every form a figure is shown in. Promises that all of them come from `data` alone, so
//! that a file read later shows what the run showed. Never measures.

pub mod data;
