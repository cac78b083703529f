//! `bandwidth`: how fast bodies of requests and responses are passed on.
//!
//! A body is cut into pieces, and each piece is charged to a cell that holds the time at which all
//! pieces so far are paid back at the rate: the same algorithm as `rate_limit`. A body whose cell
//! is too far ahead is not read until then, which holds back its sender.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};

use message::{Body, BodyStream, Fault, Frame, Request, Response};
use net::clock::{self, Moment};
use net::{FileRange, Timer};
use plugin::{
    Filter, FilterKind, FilterPlan, Keyed, MaybeFuture, RouteNames, Stage, Step, WorkerContext,
};
use settings::{Key, Node, Reader, Setting, Size};
use telemetry::{CachePadded, Counter, families};

use crate::keyed_state;
use crate::request_key::{RequestKey, check_ipv6_prefix};

pub(crate) const KIND: FilterKind =
    FilterKind { name: "bandwidth", schema: Bandwidth::schema, read };

/// Pieces of a body: a sixteenth of a second of its rate, within these bounds.
const PIECE_BYTES_MIN: u64 = 1024;
const PIECE_BYTES_MAX: u64 = 64 * 1024;

/// Limits how fast bodies of requests and responses are passed on, in bytes per second.
///
/// Each exchange has the rate to itself, unless `key` makes exchanges share it. A client that is
/// slow because of this limit does not run into the time-outs of slow clients.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct Bandwidth {
    /// Bytes per second of request bodies.
    #[setting(range = "1KiB"..="1TiB", example = "1MiB")]
    request: Option<Size>,
    /// Bytes per second of response bodies.
    #[setting(range = "1KiB"..="1TiB", example = "512KiB")]
    response: Option<Size>,
    /// How many bytes pass at once before the rate applies.
    #[setting(default = "64KiB", range = "1KiB"..="1GiB")]
    burst: Size,
    /// Exchanges with the same text share the rate; without it each has its own.
    #[setting(example = "client_ip", example = "consumer")]
    key: Option<Key>,
    /// Where the key is `client_ip`: how many bits of an IPv6 address count. A single customer
    /// usually has 64.
    #[setting(default = 64, range = 1..=128)]
    ipv6_prefix: u8,
    /// The name of the limit, for metrics; without it that of the route.
    name: Option<String>,
    /// How many keys are stored. Beyond that, keys that were idle longest begin with a full burst.
    #[setting(default = 65536, range = 1..=16777216)]
    entries: u32,
}

fn check(settings: &Bandwidth, node: &Node, reader: &mut Reader<'_>) {
    if settings.key.is_none() {
        reader.no_effect(node, &["entries"], "there is no `key`");
    }
    check_ipv6_prefix(&settings.key, node, reader);
    if settings.request.is_none() && settings.response.is_none() {
        reader
            .error(node.span, "a bandwidth limit without effect")
            .help("write request, response or both");
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(BandwidthPlan(Bandwidth::read(node, reader)?)))
}

struct BandwidthPlan(Bandwidth);

/// Identifies the cells of a direction across reloads.
#[derive(PartialEq, Eq, Hash)]
struct CellsKey {
    name: String,
    direction: &'static str,
    rate: u64,
    key: Key,
    ipv6_prefix: u8,
    entries: u32,
}

impl FilterPlan for BandwidthPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        self.build_on(RouteNames::default(), worker)
    }

    fn build_on(&self, route: RouteNames<'_>, worker: &WorkerContext) -> Stage {
        let Bandwidth { burst, key, ipv6_prefix, name, entries, .. } = &self.0;
        let (ipv6_prefix, entries) = (*ipv6_prefix, *entries);
        let name = name.as_deref().unwrap_or(route.shown);
        let telemetry = &worker.telemetry;
        let direction = |rate: Option<Size>, direction| {
            let rate = rate?.bytes();
            let cells = key.clone().map(|key| {
                let name = name.to_owned();
                CellsKey { name, direction, rate, key, ipv6_prefix, entries }
            });
            let cells = cells.map(|identity| {
                worker.shared.get(identity, || keyed_state::table(telemetry, name, entries))
            });
            Some(Direction {
                rate: BodyRate::new(rate, burst.bytes()),
                burst_bytes: burst.bytes(),
                cells,
                pauses: telemetry.worker_counter(
                    worker.index,
                    &families::BANDWIDTH_PAUSES,
                    &[name, direction],
                ),
            })
        };
        Stage::Filter(Rc::new(BandwidthFilter {
            request: direction(self.0.request, "request"),
            response: direction(self.0.response, "response"),
            key: key.as_ref().map(|key| RequestKey::new(key, ipv6_prefix)),
        }))
    }

    fn needs_authentication(&self) -> bool {
        self.0.key.as_ref().is_some_and(|key| key.template().needs_authentication())
    }

    fn describe(&self) -> String {
        let said = |word, rate: &Option<Size>| rate.map(|rate| format!("{word} {rate}/s"));
        let both: Vec<String> = (said("request", &self.0.request).into_iter())
            .chain(said("response", &self.0.response))
            .collect();
        let key = self.0.key.as_ref().map(|key| format!(" by {key}")).unwrap_or_default();
        format!("{}{key}", both.join(", "))
    }
}

struct BandwidthFilter {
    request: Option<Direction>,
    response: Option<Direction>,
    key: Option<RequestKey>,
}

struct Direction {
    rate: BodyRate,
    burst_bytes: u64,
    cells: Option<Arc<Keyed<Arc<AtomicU64>>>>,
    pauses: Arc<CachePadded<Counter>>,
}

/// The rate and the burst as times.
#[derive(Clone, Copy, Debug)]
struct BodyRate {
    bytes_per_s: u64,
    burst_ns: u64,
    piece_bytes: u64,
}

impl BodyRate {
    fn new(bytes_per_s: u64, burst: u64) -> BodyRate {
        let piece_bytes = (bytes_per_s / 16).clamp(PIECE_BYTES_MIN, PIECE_BYTES_MAX);
        let mut body_rate = BodyRate { bytes_per_s, burst_ns: 0, piece_bytes };
        body_rate.burst_ns = body_rate.time_of(burst);
        body_rate
    }

    /// Nanoseconds in which so many bytes pass at the rate.
    fn time_of(self, bytes: u64) -> u64 {
        let ns = u128::from(bytes) * 1_000_000_000 / u128::from(self.bytes_per_s);
        u64::try_from(ns).unwrap_or(u64::MAX)
    }

    /// Charges a piece; returns the time at which it may pass. Pieces of a shared cell pass in the
    /// order in which they were charged.
    fn charge(self, cell: &AtomicU64, now_ns: u64, bytes: u64) -> u64 {
        let time = self.time_of(bytes);
        let mut cell_ns = cell.load(Ordering::Relaxed);
        loop {
            let begin = cell_ns.max(now_ns);
            let (paid, order) = (begin.saturating_add(time), Ordering::Relaxed);
            match cell.compare_exchange_weak(cell_ns, paid, order, order) {
                Ok(_) => return begin.saturating_sub(self.burst_ns),
                Err(newer) => cell_ns = newer,
            }
        }
    }
}

impl Direction {
    /// Puts a body at the rate of this direction.
    fn limit(&self, key: Option<&RequestKey>, request: &Request, body: &mut Body) {
        let length = body.length();
        let alone = self.cells.is_none();
        if length == Some(0) || alone && length.is_some_and(|length| length <= self.burst_bytes) {
            return;
        }
        let cell = match (&self.cells, key) {
            (Some(cells), Some(key)) => {
                key.with(request, |key| keyed_state::with(cells, key, Arc::clone))
            }
            _ => Arc::default(),
        };
        *body = Body::stream(LimitedBody {
            body: std::mem::take(body).owned(),
            rest: None,
            cell,
            rate: self.rate,
            timer: Timer::new(),
            charged: None,
            pauses: self.pauses.clone(),
        });
    }
}

impl Filter for BandwidthFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        if let Some(direction) = &self.request {
            let mut body = std::mem::take(&mut request.body);
            direction.limit(self.key.as_ref(), request, &mut body);
            request.body = body;
        }
        Step::Continue.into()
    }

    fn on_response<'a>(
        &'a self,
        request: &'a mut Request,
        response: &'a mut Response,
    ) -> MaybeFuture<'a, Step> {
        if let Some(direction) = &self.response {
            direction.limit(self.key.as_ref(), request, &mut response.body);
        }
        Step::Continue.into()
    }
}

/// A body at a rate.
struct LimitedBody {
    body: Body,
    /// The rest of a frame that was cut.
    rest: Option<Frame>,
    cell: Arc<AtomicU64>,
    rate: BodyRate,
    timer: Timer,
    /// The next piece, and when it may pass.
    charged: Option<(Frame, u64)>,
    pauses: Arc<CachePadded<Counter>>,
}

impl LimitedBody {
    /// Cuts a piece off a frame; returns its length too.
    fn cut(&mut self, frame: Frame) -> (Frame, u64) {
        let most = self.rate.piece_bytes;
        let (piece, rest, bytes) = match frame {
            Frame::Data(mut data) if data.len() as u64 > most => {
                let piece = data.split_to(most as usize);
                (Frame::Data(piece), Some(Frame::Data(data)), most)
            }
            Frame::Data(data) => {
                let bytes = data.len() as u64;
                (Frame::Data(data), None, bytes)
            }
            Frame::File(FileRange { file, offset, length }) if length > most => {
                let piece = FileRange { file: file.clone(), offset, length: most };
                let rest = FileRange { file, offset: offset + most, length: length - most };
                (Frame::File(piece), Some(Frame::File(rest)), most)
            }
            Frame::File(range) => {
                let bytes = range.length;
                (Frame::File(range), None, bytes)
            }
            trailers => (trailers, None, 0),
        };
        self.rest = rest;
        (piece, bytes)
    }
}

impl BodyStream for LimitedBody {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame, Fault>>> {
        let now_ns = clock::now_us() * 1000;
        if self.charged.is_none() {
            let frame = match self.rest.take() {
                Some(rest) => rest,
                None => match ready!(self.body.poll_frame(cx)) {
                    Some(Ok(frame)) => frame,
                    end => return Poll::Ready(end),
                },
            };
            let (piece, bytes) = self.cut(frame);
            let at_ns = self.rate.charge(&self.cell, now_ns, bytes);
            if at_ns > now_ns {
                self.pauses.inc();
                self.timer.set_precise_at(Moment::from_ms(at_ns.div_ceil(1_000_000)));
            }
            self.charged = Some((piece, at_ns));
        }
        if self.charged.as_ref().is_some_and(|(_, at_ns)| *at_ns > now_ns) {
            ready!(self.timer.poll(cx));
        }
        Poll::Ready(self.charged.take().map(|(piece, _)| Ok(piece)))
    }

    fn length(&self) -> Option<u64> {
        let length = |frame: &Frame| match frame {
            Frame::Data(data) => data.len() as u64,
            Frame::File(range) => range.length,
            Frame::Trailers(_) => 0,
        };
        let charged = self.charged.as_ref().map_or(0, |(piece, _)| length(piece));
        let rest = self.rest.as_ref().map_or(0, length);
        Some(self.body.length()? + charged + rest)
    }
}

#[cfg(test)]
mod tests;
