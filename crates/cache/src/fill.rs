//! How what is not there is fetched: once for all who ask, apart from any of them.
//!
//! Owns the run of a fetch and what becomes of it, in steps: [`asked`] makes the request ▶ `fetch`
//! runs it and judges the head ▶ [`pour`] lets the content grow while it is read ▶ `keep` makes an
//! object of it. Promises that what was cut off or is longer than may be kept is never stored, that
//! whoever reads it sees that it was cut, and that fills under way are bounded in number and bytes.
//! Never chooses who fetches (`flight`), nor answers a client (`filter`).

mod arrival;
mod asked;
mod budget;
mod decoded;
mod fetch;
mod keep;
mod part;
mod pour;
mod uncoded;

pub(crate) use arrival::{Arrival, append};
pub(crate) use asked::asked_part;
pub(crate) use budget::{Budget, Share};
pub(crate) use decoded::{DECODING_FULL, read};
pub(crate) use fetch::{Fetch, Interim, Told, head_bytes};
pub(crate) use keep::{object, of_parts};
pub(crate) use part::less_than_whole;
pub(crate) use uncoded::{Undoing, Whose, take_as_is, takes, uncode};
