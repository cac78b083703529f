//! How what is not there is fetched: once for all who ask, apart from any of them.
//!
//! Owns the run of a fetch and what becomes of it, in steps: [`asked`] makes the request ▶ `fetch`
//! runs it and judges the head ▶ [`pour`] lets the content grow while it is read ▶ `keep` makes an
//! object of it. Promises that what was cut off or is longer than may be kept is never stored, that
//! whoever reads it sees that it was cut, and that fill_budget under way are bounded in number and
//! bytes. Never chooses who fetches (`fetch`), nor answers a client (`filter`).

mod budget;
mod build_object;
mod copy_body;
mod decode;
mod decoding_body;
mod fetch;
mod origin_request;
mod range_body;
mod streaming;

pub(crate) use budget::{BudgetShare, FillBudget};
pub(crate) use build_object::{new_object, parts_response};
pub(crate) use decode::{DecodeContext, DecodeSource, accepts, decode_for_client, decode_unstored};
pub(crate) use decoding_body::read;
pub(crate) use fetch::{Fetch, FetchOutcome, InterimForwarder, head_bytes};
pub(crate) use origin_request::range_origin_request;
pub(crate) use range_body::partial_or_not_modified;
pub(crate) use streaming::{StreamingResponse, append};
