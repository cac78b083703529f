//! `request_id`: one id for a request, wherever it is logged.
//!
//! Promises unpredictable ids of 128 bits without state shared between workers: each instance turns
//! a counter into ids by a keyed hash. A received id is accepted only from trusted clients.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use message::{Fault, Request, Response};
use plugin::{
    Filter, FilterKind, FilterPlan, HeaderName, MaybeFuture, Stage, Step, WorkerContext,
    remove_trailers,
};
use settings::{Cidr, Node, Reader, Setting, any_contains};
use wire::Known;

pub(crate) const KIND: FilterKind =
    FilterKind { name: "request_id", schema: RequestId::schema, read };

/// Longest received id that is accepted.
const ID_BYTES_MAX: usize = 128;

/// Gives each request an id that upstreams, logs and the client see.
///
/// The variable `{request_id}` holds it in every later filter.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct RequestId {
    /// The header of the id.
    #[setting(default = "x-request-id")]
    header: HeaderName,
    /// Clients whose ids are accepted, by the address of the connection; ids of all others are
    /// replaced. An id has up to 128 letters, digits and `-_.~:/+=@`.
    #[setting(default = [], example = ["10.0.0.0/8"], example = ["0.0.0.0/0", "::/0"])]
    trust: Vec<Cidr>,
    /// The format of a new id.
    #[setting(default = "hex")]
    format: Format,
    /// Sends the id to the client too.
    #[setting(default = true)]
    response: bool,
}

/// The format of a new id.
#[derive(Clone, Debug, PartialEq, Setting)]
enum Format {
    /// 32 hexadecimal digits, all random.
    Hex,
    /// A UUID of version 7 (RFC 9562): ids sort by the time of their creation.
    Uuid,
}

fn check(settings: &RequestId, node: &Node, reader: &mut Reader<'_>) {
    let known = Known::from_bytes(settings.header.as_str().as_bytes());
    if known.is_some_and(Known::is_forbidden_in_trailers) {
        let span = node.get("header").unwrap_or(node).span;
        reader.error(span, format!("{} has another meaning already", settings.header));
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    Some(Arc::new(RequestIdPlan(Arc::new(RequestId::read(node, reader)?))))
}

struct RequestIdPlan(Arc<RequestId>);

impl FilterPlan for RequestIdPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, _: &WorkerContext) -> Stage {
        Stage::Filter(Rc::new(RequestIdFilter {
            settings: self.0.clone(),
            header: Rc::new([self.0.header.clone()]),
            ids: RandomIds::default(),
        }))
    }

    fn describe(&self) -> String {
        let trusted = if self.0.trust.is_empty() { "" } else { ", some trusted" };
        format!("in {}{trusted}", self.0.header)
    }
}

struct RequestIdFilter {
    settings: Arc<RequestId>,
    /// The header of the id, as those are listed that a client does not set.
    header: Rc<[HeaderName]>,
    ids: RandomIds,
}

impl Filter for RequestIdFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn is_instant(&self) -> bool {
        true
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        self.identify(request);
        remove_trailers(request, &self.header);
        Step::Continue.into()
    }

    fn on_response<'a>(
        &'a self,
        request: &'a mut Request,
        response: &'a mut Response,
    ) -> MaybeFuture<'a, Step> {
        if self.settings.response
            && let Some(id) = &request.request_id
        {
            response.headers.set(&self.settings.header, &**id);
        }
        Step::Continue.into()
    }

    fn on_fault(&self, request: &mut Request, fault: &mut Fault) {
        // A request that is rejected before any filter sees it has no id yet.
        if request.request_id.is_none() {
            self.identify(request);
        }
        if self.settings.response
            && let Some(id) = &request.request_id
        {
            fault.fields.get_or_insert_default().set(&self.settings.header, &**id);
        }
    }
}

impl RequestIdFilter {
    /// Gives a request its id: that of a trusted client, or a new one.
    fn identify(&self, request: &mut Request) {
        let RequestId { header, trust, format, .. } = &*self.settings;
        let trusted = || any_contains(trust, request.facts.peer_ip());
        let given = || only_valid(request.headers.get_all(header));
        let id = match if !trust.is_empty() && trusted() { given() } else { None } {
            Some(id) => id.into(),
            None => self.ids.generate(format),
        };
        // Also for an accepted id: other spellings of the name are removed.
        request.headers.set(header, &*id);
        request.request_id = Some(id);
    }
}

/// The id, if there is exactly one and it is valid.
fn only_valid<'a>(mut values: impl Iterator<Item = &'a [u8]>) -> Option<&'a str> {
    let id = std::str::from_utf8(values.next()?).ok()?;
    let harmless = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~:/+=@".contains(&byte);
    let fits = (1..=ID_BYTES_MAX).contains(&id.len()) && id.bytes().all(harmless);
    (fits && values.next().is_none()).then_some(id)
}

/// Generates ids. The keys of the hash come from the system's randomness; SipHash is a
/// pseudo-random function, so its values under a counter cannot be distinguished from random ones.
#[derive(Default)]
pub(crate) struct RandomIds {
    keyed: RandomState,
    counter: Cell<u64>,
}

impl RandomIds {
    /// 128 random bits.
    pub(crate) fn hex(&self) -> Box<str> {
        str::from_utf8(&digits(self.random(), self.random())).unwrap_or_default().into()
    }

    fn generate(&self, format: &Format) -> Box<str> {
        match format {
            Format::Hex => self.hex(),
            Format::Uuid => {
                let (high, low) = (self.random(), self.random());
                let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
                uuid7(since.as_millis() as u64, high, low).into_boxed_str()
            }
        }
    }

    fn random(&self) -> u64 {
        let count = self.counter.get();
        self.counter.set(count.wrapping_add(1));
        self.keyed.hash_one(count)
    }
}

/// RFC 9562 5.7: 48 bits of milliseconds, the version, 12 random bits, the variant, 62 random bits.
fn uuid7(unix_ms: u64, high: u64, low: u64) -> String {
    let digits = digits(unix_ms << 16 | 0x7000 | high & 0xfff, 1 << 63 | low >> 2);
    let text = str::from_utf8(&digits).unwrap_or_default();
    [&text[..8], &text[8..12], &text[12..16], &text[16..20], &text[20..]].join("-")
}

/// Hexadecimal digits, without `std::fmt`, which takes several times as many instructions.
fn digits(high: u64, low: u64) -> [u8; 32] {
    let bytes = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
    let half = |at: usize| match at.is_multiple_of(2) {
        true => bytes[at / 2] >> 4,
        false => bytes[at / 2] & 0xf,
    };
    std::array::from_fn(|at| b"0123456789abcdef"[usize::from(half(at))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{body_with_trailers, errors, filter, get, passed, trailer_names};
    use settings::node;
    use std::collections::HashSet;

    /// The id of a request from the loopback address with these fields.
    fn id(settings: &Node, headers: &[(&str, &str)]) -> String {
        let ids = filter(&KIND, settings);
        let mut request = get("/", headers);
        passed(ids.on_request(&mut request)).unwrap();
        let id = request.request_id.clone().unwrap();
        let sent: Vec<_> = request.headers.get_all("x-request-id").collect();
        assert_eq!(sent, [id.as_bytes()]);
        let mut response = Response::new(200);
        response.headers.append("x-request-id", "from upstream");
        passed(ids.on_response(&mut request, &mut response)).unwrap();
        assert_eq!(response.headers.get_all("x-request-id").collect::<Vec<_>>(), [id.as_bytes()]);
        let mut fault = Fault::not_found();
        ids.on_fault(&mut request, &mut fault);
        assert_eq!(fault.fields.unwrap().get("x-request-id"), Some(id.as_bytes()));
        id.into()
    }

    #[test]
    fn the_declaration_is_valid() {
        settings::verify::<RequestId>().unwrap();
    }

    #[test]
    fn ids_are_new_and_differ() {
        let (one, other) = (RandomIds::default(), RandomIds::default());
        let make = |ids: &RandomIds| ids.generate(&Format::Hex);
        let ids: HashSet<_> = (0..1000).flat_map(|_| [make(&one), make(&other)]).collect();
        assert_eq!(ids.len(), 2000);
        let digits =
            |id: &str| id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        assert!(ids.iter().all(|id| id.len() == 32 && digits(id)));
    }

    #[test]
    fn a_uuid_has_its_time_version_and_variant() {
        // The example of RFC 9562, appendix A.6.
        let uuid = uuid7(0x017f_22e2_79b0, 0xcc3, 0x18c4_dc0c_0c07_398f << 2);
        assert_eq!(uuid, "017f22e2-79b0-7cc3-98c4-dc0c0c07398f");
        let made = id(&node!({ "format": "uuid" }), &[]);
        assert_eq!(made.len(), 36);
        assert_eq!(&made[14..15], "7");
        assert!("89ab".contains(&made[19..20]), "{made}");
    }

    #[test]
    fn only_valid_ids_of_trusted_peers_are_accepted() {
        let all_clients = node!({ "trust": ["0.0.0.0/0", "::/0"] });
        let given = |id| ("x-request-id", id);
        assert_eq!(id(&all_clients, &[given("abc-1_2.3~:/+=@")]), "abc-1_2.3~:/+=@");
        let long = "x".repeat(129);
        for bad in ["", "a b", "a\"b", "a,b", "\u{e9}", &long] {
            assert_eq!(id(&all_clients, &[given(bad)]).len(), 32, "{bad}");
        }
        assert_eq!(id(&all_clients, &[given("a"), given("a")]).len(), 32, "which one?");
        let ids = filter(&KIND, &all_clients);
        let mut request = get("/", &[given("abc"), ("X_Request_ID", "evil")]);
        passed(ids.on_request(&mut request)).unwrap();
        assert_eq!(request.headers.len(), 1, "another spelling is removed too");
        for settings in [node!({}), node!({ "trust": ["10.0.0.0/8"] })] {
            assert_eq!(id(&settings, &[given("abc")]).len(), 32);
        }
        assert_eq!(id(&node!({ "trust": ["127.0.0.1"] }), &[given("abc")]), "abc");
    }

    #[test]
    fn a_trailer_is_not_an_id() {
        let ids = filter(&KIND, &node!({}));
        let mut request = get("/", &[]);
        request.body = body_with_trailers(&["X_Request_ID", "x-sum"]);
        passed(ids.on_request(&mut request)).unwrap();
        assert_eq!(trailer_names(request.body), ["x-sum"]);
    }

    #[test]
    fn the_header_and_the_response_are_settings() {
        let settings = node!({ "header": "X-Trace", "response": false });
        let ids = filter(&KIND, &settings);
        let mut request = get("/", &[]);
        passed(ids.on_request(&mut request)).unwrap();
        assert_eq!(request.headers.get("x-trace").map(<[u8]>::len), Some(32));
        let mut response = Response::new(200);
        passed(ids.on_response(&mut request, &mut response)).unwrap();
        assert!(response.headers.is_empty());
    }

    #[test]
    fn errors_are_named() {
        for (settings, why) in [
            (node!({ "header": "a b" }), "is not a valid header name"),
            (node!({ "header": "Content-Length" }), "another meaning"),
            (node!({ "trust": ["10.0.0.1/8"] }), "write 10.0.0.0/8"),
            (node!({ "format": "base64" }), "base64"),
        ] {
            let report = errors(&KIND, &settings);
            assert!(report.contains(why), "{report}\nwanted {why}");
        }
    }
}
