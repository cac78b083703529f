//! `compress`: gzip, br and zstd on the fly.
//!
//! Decides which responses are compressed and changes their fields; `coder` compresses. Promises
//! that nothing is compressed twice, that a response that must not be transformed is unchanged (RFC
//! 9111 5.2.2.6), that responses have the field Vary even if this client got the uncompressed form,
//! and that a worker itself compresses at most 64 KiB of a response: the rest goes to the blocking
//! pool.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use coding::Coding;
use message::{Body, Headers, Request, Response};
use plugin::{
    Filter, FilterKind, FilterPlan, MaybeFuture, MediaPattern, Stage, Step, WorkerContext,
};
use settings::{Node, Reader, Setting, Size};
use telemetry::{CachePadded, Counter, families};
use wire::{Known, Method, negotiate};

mod coder;

use crate::vary::vary_on;
use coder::Coder;

pub(crate) const KIND: FilterKind = FilterKind { name: "compress", schema: Compress::schema, read };

/// Bytes of one response that a worker compresses itself.
const ON_WORKER_BYTES: usize = 64 * 1024;
/// A body in memory up to this size is compressed as a whole, so that its length is known.
const AS_WHOLE_BYTES: usize = 1024 * 1024;

/// Compresses responses for clients that accept it.
///
/// Streams are compressed as they come and flushed when the source pauses, so server-sent events
/// arrive at once. Unchanged: compressed responses, `Cache-Control: no-transform`, partial
/// responses (206). Responses to HEAD have the fields of those to GET. `Vary: Accept-Encoding` is
/// added and a strong `ETag` becomes a weak one. Compressing secrets next to text from the client
/// lets an attacker guess them (BREACH): do not use it on such routes.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct Compress {
    /// The codings to offer, the preferred first; preferences of the client come first.
    #[setting(default = ["zstd", "br", "gzip"])]
    codings: Vec<CodingName>,
    /// Smaller bodies are not compressed.
    #[setting(default = "1KiB")]
    min_size: Size,
    /// The media types to compress: `text/html`, `text/*`, or `*+json` by suffix.
    #[setting(
        default = [
            "text/*", "application/json", "application/javascript", "application/xml",
            "application/manifest+json", "application/wasm", "*+json", "*+xml", "application/yaml",
            "application/toml", "application/vnd.ms-fontobject", "font/ttf", "font/otf",
            "image/bmp", "image/vnd.microsoft.icon",
        ],
    )]
    types: Vec<MediaPattern>,
    /// The compression level of each coding.
    #[setting(default = {})]
    levels: Levels,
}

/// Levels of compression: more is smaller and slower.
#[derive(Clone, Debug, PartialEq, Setting)]
struct Levels {
    /// For gzip.
    #[setting(default = 5, range = 1..=9)]
    gzip: u32,
    /// For Brotli.
    #[setting(default = 4, range = 0..=11)]
    br: u32,
    /// For Zstandard.
    #[setting(default = 3, range = 1..=19)]
    zstd: u32,
}

/// A content coding.
#[derive(Clone, Debug, PartialEq, Setting)]
enum CodingName {
    /// Zstandard.
    Zstd,
    /// Brotli.
    Br,
    /// Gzip, which every client supports.
    Gzip,
}

impl CodingName {
    fn coding(&self) -> Coding {
        match self {
            CodingName::Zstd => Coding::Zstd,
            CodingName::Br => Coding::Br,
            CodingName::Gzip => Coding::Gzip,
        }
    }
}

impl Levels {
    fn of(&self, coding: Coding) -> u32 {
        match coding {
            Coding::Gzip => self.gzip,
            Coding::Br => self.br,
            Coding::Zstd => self.zstd,
        }
    }
}

fn check(settings: &Compress, node: &Node, reader: &mut Reader<'_>) {
    let at = |key: &str| node.get(key).unwrap_or(node).span;
    let mut tokens: Vec<_> = settings.codings.iter().map(|name| name.coding().token()).collect();
    tokens.sort_unstable();
    if tokens.is_empty() || tokens.windows(2).any(|pair| pair[0] == pair[1]) {
        reader.error(at("codings"), "codings names at least one coding and none twice");
    }
    if settings.types.is_empty() {
        reader.error(at("types"), "without types nothing is compressed");
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(CompressPlan(Arc::new(Compress::read(node, reader)?))))
}

struct CompressPlan(Arc<Compress>);

impl FilterPlan for CompressPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        Stage::Filter(Rc::new(CompressFilter::new(self.0.clone(), worker)))
    }

    fn describe(&self) -> String {
        let codings = self.0.codings.iter().map(|name| name.coding().token());
        format!("{} from {}", codings.collect::<Vec<_>>().join(", "), self.0.min_size)
    }
}

struct CompressFilter {
    settings: Arc<Compress>,
    codings: Vec<Offer>,
    tokens: Vec<&'static str>,
}

/// A coding that clients may request, its level, and the counters of its results.
#[derive(Clone)]
struct Offer {
    coding: Coding,
    level: u32,
    before: Arc<CachePadded<Counter>>,
    after: Arc<CachePadded<Counter>>,
}

impl Offer {
    fn count(&self, before: usize, after: usize) {
        self.before.add(before as u64);
        self.after.add(after as u64);
    }
}

impl CompressFilter {
    fn new(settings: Arc<Compress>, worker: &WorkerContext) -> CompressFilter {
        let offer = |name: &CodingName| {
            let coding = name.coding();
            let counter =
                |family| worker.telemetry.worker_counter(worker.index, family, &[coding.token()]);
            Offer {
                coding,
                level: settings.levels.of(coding),
                before: counter(&families::COMPRESS_IN),
                after: counter(&families::COMPRESS_OUT),
            }
        };
        let codings: Vec<_> = settings.codings.iter().map(offer).collect();
        let tokens = codings.iter().map(|offer| offer.coding.token()).collect();
        CompressFilter { settings, codings, tokens }
    }

    /// True if compressing the response is worth it, for any client.
    fn is_eligible(&self, response: &Response, to_head: bool) -> bool {
        let headers = &response.headers;
        let long_enough = |length: Option<u64>| {
            length.is_none_or(|length| length >= self.settings.min_size.bytes())
        };
        // RFC 9110 15: these have no content, or only a part of it.
        let has_content =
            response.status >= 200 && ![204, 205, 206, 304].contains(&response.status);
        has_content
            && response.takeover.is_none()
            && !headers.contains(Known::ContentRange)
            && headers.get(Known::ContentEncoding).is_none_or(|coding| coding == b"identity")
            && !headers.lists_token(Known::CacheControl, "no-transform")
            && long_enough(length_of(response, to_head))
            && headers.get(Known::ContentType).is_some_and(|value| {
                self.settings.types.iter().any(|pattern| pattern.matches(value))
            })
    }

    fn choose(&self, headers: &Headers) -> Option<&Offer> {
        let accepted = headers.joined(Known::AcceptEncoding)?;
        match negotiate::choose_coding(Some(&accepted), &self.tokens) {
            negotiate::Coding::Offered(at) => self.codings.get(at),
            negotiate::Coding::Identity | negotiate::Coding::NotAcceptable => None,
        }
    }
}

/// Replaces a body in memory by its compressed form, if that is smaller.
fn replace(response: &mut Response, offer: &Offer, plain: Bytes, coded: Option<Vec<u8>>) {
    match coded {
        Some(coded) if coded.len() < plain.len() => {
            offer.count(plain.len(), coded.len());
            mark(&mut response.headers, offer.coding);
            response.body = Body::Bytes(Bytes::from(coded));
        }
        _ => response.body = Body::Bytes(plain),
    }
}

/// The length of the content, even if it is only announced, as to HEAD.
fn length_of(response: &Response, to_head: bool) -> Option<u64> {
    match &response.body {
        // A length that HEAD does not announce is one that GET sends in chunks.
        Body::Empty => response
            .headers
            .get(Known::ContentLength)
            .map_or((!to_head).then_some(0), wire::token::decimal),
        body => body.length(),
    }
}

impl Filter for CompressFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn on_response<'a>(
        &'a self,
        request: &'a mut Request,
        response: &'a mut Response,
    ) -> MaybeFuture<'a, Step> {
        let is_forbidden = || request.headers.lists_token(Known::CacheControl, "no-transform");
        let to_head = request.method == Method::Head;
        if response.status == 304 {
            confirm(request, &mut response.headers);
        }
        if !self.is_eligible(response, to_head) {
            return Step::Continue.into();
        }
        vary_on(&mut response.headers, "Accept-Encoding");
        if is_forbidden() {
            return Step::Continue.into();
        }
        let Some(offer) = self.choose(&request.headers) else { return Step::Continue.into() };
        match std::mem::take(&mut response.body).owned() {
            Body::Bytes(plain) if plain.len() <= ON_WORKER_BYTES => {
                let coded = coding::encode_all(offer.coding, offer.level, &plain);
                replace(response, offer, plain, coded.ok());
                Step::Continue.into()
            }
            Body::Bytes(plain) if plain.len() <= AS_WHOLE_BYTES => {
                let (coding, level, input) = (offer.coding, offer.level, plain.clone());
                let coded = net::blocking(move || coding::encode_all(coding, level, &input).ok());
                MaybeFuture::of(async move {
                    replace(response, offer, plain, coded.await.unwrap_or_default());
                    Step::Continue
                })
            }
            // RFC 9110 9.3.2: HEAD has the fields of the response to GET. That has another length
            // than the announced one, which is not known yet.
            Body::Empty | Body::Stream(_) | Body::File(_) if to_head => {
                mark(&mut response.headers, offer.coding);
                Step::Continue.into()
            }
            Body::Empty => Step::Continue.into(),
            body => {
                match coding::Encoder::sized(offer.coding, offer.level, body.length()) {
                    Ok(encoder) => {
                        mark(&mut response.headers, offer.coding);
                        response.body = Body::stream(Coder::new(body, encoder, offer.clone()));
                    }
                    // Memory is short: the plain form is a valid response as well.
                    Err(_) => response.body = body,
                }
                Step::Continue.into()
            }
        }
    }
}

/// Sets the fields of a compressed representation.
fn mark(headers: &mut Headers, coding: Coding) {
    headers.set(Known::ContentEncoding, coding.token());
    // The length, the digest and the ranges belonged to another representation.
    for name in [
        Known::ContentLength,
        Known::AcceptRanges,
        Known::ContentMd5,
        Known::ContentDigest,
        Known::ReprDigest,
    ] {
        headers.remove(name);
    }
    // RFC 9110 8.8.1: the bytes may differ from run to run, so the tag cannot be strong.
    if let Some(weak) = weakened(headers) {
        headers.set(Known::Etag, weak);
    }
}

/// The weak form of a strong tag.
fn weakened(headers: &Headers) -> Option<Vec<u8>> {
    let strong = headers.get(Known::Etag).filter(|etag| !etag.starts_with(b"W/"))?;
    Some([b"W/", strong].concat())
}

/// A 304 has the tag and the Vary of the 200 it stands for (RFC 9110 15.4.5). A client that sends
/// our weak tag has the compressed form: with the strong tag it would combine parts of the
/// uncompressed form with it (RFC 9111 3.2, 3.4).
fn confirm(request: &Request, headers: &mut Headers) {
    let Some(weak) = weakened(headers) else { return };
    // The quotes are part of a tag and cannot stand inside another.
    let names = |value: &[u8]| value.windows(weak.len()).any(|part| part == weak);
    if request.headers.get_all(Known::IfNoneMatch).any(names) {
        headers.set(Known::Etag, weak);
        vary_on(headers, "Accept-Encoding");
    }
}

#[cfg(test)]
mod tests;
