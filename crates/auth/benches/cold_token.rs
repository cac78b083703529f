//! What `jwt` costs for a token that it has not seen before (RS256, 2048 bits), compared with one
//! bare verification of the signature: `cargo bench -p auth --bench cold_token --profile quick`.
//!
//! Both run in process with the same tokens, in rounds that alternate. Prints the time of each and
//! the ratio filter ÷ bare: its median and its quartiles. With `-- filter COUNT` or `-- bare COUNT`
//! it does only that and prints nothing, for `valgrind --tool=callgrind --collect-atstart=no
//! --toggle-collect='cold_token::time_*'`, which counts neither the random key nor the signing.

#![allow(clippy::print_stdout)] // it is a program for the terminal
#![allow(clippy::unwrap_used)] // without input

use std::sync::Arc;
use std::time::Instant;

use aws_lc_rs::encoding::{AsDer, PublicKeyX509Der};
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{
    KeyPair as _, ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PKCS1_SHA256,
};
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use message::{Headers, Request, Target};
use plugin::{FilterPlan, MaybeFuture, Stage, Step, WorkerContext};
use settings::{Reader, Report, node};
use wire::{Known, Method};

/// The one of the server.
#[global_allocator]
static ALLOCATOR: net::Allocator = net::Allocator;

/// Tokens of a round: fewer than the filter remembers.
const TOKENS: usize = 1000;
const ROUNDS: usize = 40;

struct SignedToken {
    /// The whole value of `Authorization`.
    field: String,
    /// The length of the signed part of the token.
    signed: usize,
    signature: Vec<u8>,
}

const SCHEME: &str = "Bearer ";

impl SignedToken {
    fn new(pair: &KeyPair, number: usize) -> SignedToken {
        let expires_s = net::clock::wall_secs() + 3600;
        let header = URL_SAFE_NO_PAD.encode(r#"{"alg":"RS256","typ":"JWT","kid":"main"}"#);
        let payload = URL_SAFE_NO_PAD.encode(format!(
            "{{\"iss\":\"https://id.example.com\",\"sub\":\"client-{number}\",\"aud\":\"shop\",\
             \"exp\":{expires_s},\"scope\":\"orders:read orders:write\"}}"
        ));
        let signed = format!("{header}.{payload}");
        let mut signature = vec![0; pair.public_modulus_len()];
        pair.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), signed.as_bytes(), &mut signature)
            .unwrap();
        let field = format!("{SCHEME}{signed}.{}", URL_SAFE_NO_PAD.encode(&signature));
        SignedToken { field, signed: signed.len(), signature }
    }

    fn signed(&self) -> &[u8] {
        &self.field.as_bytes()[SCHEME.len()..][..self.signed]
    }

    fn request(&self) -> Request {
        let mut headers = Headers::new();
        headers.append(Known::Host, "shop.example.com");
        headers.append(Known::Authorization, self.field.as_str());
        let target = Target::new(bytes::Bytes::from_static(b"/orders/42")).unwrap();
        Request::made_up(Method::Get, target, headers)
    }
}

fn main() {
    net::clock::refresh();
    let pair = KeyPair::generate(KeySize::Rsa2048).unwrap();
    let public: PublicKeyX509Der<'_> = pair.public_key().as_der().unwrap();
    let key = ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, public.as_ref()).unwrap();
    let plan = filter_plan(public.as_ref());
    let mut words = std::env::args().skip(1).filter(|word| !word.starts_with("--"));
    let way = words.next();
    let count = words.next().map_or(TOKENS, |count| count.parse().unwrap());
    let tokens: Vec<SignedToken> =
        (0..count).map(|number| SignedToken::new(&pair, number)).collect();
    match way.as_deref() {
        Some("filter") => {
            time_filter(&*plan, &tokens);
        }
        Some("bare") => {
            time_bare(&key, &tokens);
        }
        Some(other) => panic!("filter or bare, not {other}"),
        None => compare(&*plan, &key, &tokens),
    }
}

fn filter_plan(public_key: &[u8]) -> Arc<dyn FilterPlan> {
    let pem = format!(
        "-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n",
        STANDARD.encode(public_key)
    );
    let settings = node!({
        "keys": [{ "algorithm": "RS256", "id": "main", "public_key": pem }],
        "issuer": "https://id.example.com", "audience": "shop"
    });
    let kind = auth::ALL.iter().find(|kind| kind.name == "jwt").unwrap();
    (kind.read)(&settings, &mut Reader::new(&mut Report::new())).unwrap()
}

/// The µs of a token that a new filter verifies.
#[inline(never)] // callgrind finds it by its name
fn time_filter(plan: &dyn FilterPlan, tokens: &[SignedToken]) -> f64 {
    let Stage::Filter(filter) = plan.build(&WorkerContext::default()) else {
        unreachable!("jwt is not a middleware")
    };
    let mut requests: Vec<Request> = tokens.iter().map(SignedToken::request).collect();
    let begin = Instant::now();
    for request in &mut requests {
        assert!(matches!(filter.on_request(request), MaybeFuture::Ready(Step::Continue)));
    }
    begin.elapsed().as_secs_f64() * 1e6 / tokens.len() as f64
}

/// The µs of a token whose signature alone is verified.
#[inline(never)]
fn time_bare(key: &ParsedPublicKey, tokens: &[SignedToken]) -> f64 {
    let begin = Instant::now();
    for token in tokens {
        key.verify_sig(token.signed(), &token.signature).unwrap();
    }
    begin.elapsed().as_secs_f64() * 1e6 / tokens.len() as f64
}

fn compare(plan: &dyn FilterPlan, key: &ParsedPublicKey, tokens: &[SignedToken]) {
    let mut rounds: Vec<[f64; 2]> = (0..ROUNDS)
        .map(|round| {
            let first = (round % 2 == 1).then(|| time_bare(key, tokens));
            let filter = time_filter(plan, tokens);
            [filter, first.unwrap_or_else(|| time_bare(key, tokens))]
        })
        .collect();
    // The first round fills caches.
    rounds.remove(0);
    let quartiles = |figure: &dyn Fn(&[f64; 2]) -> f64| {
        let mut figures: Vec<f64> = rounds.iter().map(figure).collect();
        figures.sort_by(f64::total_cmp);
        [1, 2, 3].map(|quarter| figures[figures.len() * quarter / 4])
    };
    let [low, median, high] = quartiles(&|[filter, _]| *filter);
    println!("jwt                {median:6.2} µs ({low:.2}–{high:.2})");
    let [low, median, high] = quartiles(&|[_, bare]| *bare);
    println!("bare verification  {median:6.2} µs ({low:.2}–{high:.2})");
    let [low, median, high] = quartiles(&|[filter, bare]| filter / bare);
    println!("jwt ÷ bare         {median:6.3}    ({low:.3}–{high:.3}); the bar is 1.1");
}
