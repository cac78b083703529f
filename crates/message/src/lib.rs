//! HTTP messages in memory: requests, responses, fields, content and faults.
//!
//! Owns what filters, handlers, servers and clients exchange with one another: [`Request`],
//! [`Response`], [`Headers`], [`Body`], [`Fault`], and the [`Duplex`] that an upgrade gives. A
//! message belongs to one worker: nothing here is `Send` unless it says so. Knows neither sockets
//! nor routes nor configuration; both sides of HTTP/1.1 and HTTP/2 use the same types.

mod ai_call;
mod allowed_trailers;
mod body;
mod consumer;
mod content;
pub mod duplex;
mod facts;
mod fault;
mod file_reader;
mod filter_scratch;
mod grpc_call;
mod headers;
pub mod http2;
mod params;
mod preconditions;
mod ranges;
mod request;
mod response;
mod route_info;
mod shared_body;
#[cfg(test)]
#[path = "shared_body/tests.rs"]
mod shared_body_tests;
mod target;
mod trace;

/// `tests/models` has loom's types under these names.
mod sync {
    pub(crate) use std::sync::{Mutex, MutexGuard, RwLock, RwLockReadGuard, RwLockWriteGuard};
}

use net::FileRange;

pub use ai_call::{AiCall, AiTokens};
pub use body::{Body, BodyStream, Frame, detach_small};
pub use consumer::{Claims, Consumer, ConsumerLimits};
pub use content::{Content, WINDOW_BYTES, in_pieces};
pub use duplex::{Duplex, Ending, LocalFuture, Takeover, TunnelTraffic};
pub use facts::{ConnectionFacts, ConnectionTimes, Protocol, Scheme};
pub use fault::{Fault, FaultKind, Retry, Side};
pub use file_reader::FileReader;
pub use filter_scratch::FilterScratch;
pub use grpc_call::GrpcCall;
pub use headers::{BegunField, Field, Headers, Name, SharedHeaders};
pub use params::{PARAMS_MAX, Params};
pub use preconditions::{asked_range, preconditions};
pub use ranges::ranged;
pub use request::{CountryDatabase, HeldResource, Inform, Notes, Request};
pub use response::{HandlerResult, Response};
pub use route_info::{Bounds, LineFormat, RouteBounds, RouteInfo, RouteLog, TransferTimeout};
pub use shared_body::{SharedBody, SharedBodyReader, SharedBodyWriter, TooLong, shared_body};
pub use target::{Target, TargetParts};
pub use trace::{
    AttributeValue, Attributes, ExportQueue, ExportedTrace, FinishedTrace, OpenSpan, Recorder,
    Recording, RequestTrace, Span, SpanKind, TRACE_SPANS_MAX, TraceFields, TraceQueue, new_span_id,
};
