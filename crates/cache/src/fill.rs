//! Fetches from the origin: one for all requests that wait for it, independent of any of them.
//!
//! A fetch may first request the response from the owner of its key (`ask_owner`). Then it runs in
//! steps: [`origin_request`] builds the request, `fetch` runs it and evaluates the
//! response head, [`copy_body`] copies the content to its readers, `build_object` makes the stored
//! object. Promises that content which was cut off or is too long is never stored, that every
//! reader of it gets an error, and that fetches are bounded in number and bytes. Which request
//! fetches is decided by `single_flight`; clients are answered by `filter`.

mod ask_owner;
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
pub(crate) use decode::{accepts, decode_for_client, decode_unstored};
pub(crate) use decoding_body::read;
pub(crate) use decoding_body::{DecodeContext, DecodeSource};
pub(crate) use fetch::{Fetch, FetchOutcome, InterimForwarder, head_bytes};
pub(crate) use origin_request::range_origin_request;
pub(crate) use range_body::partial_or_not_modified;
pub(crate) use streaming::{StreamingResponse, append};
