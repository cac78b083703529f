//! The HTTP client that `instant-acme` uses: requests of its types, sent by `http-client` on the
//! control thread.
//!
//! Owns the time-out and the limit on responses. A connection serves one request: there are a dozen
//! of them every two months.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use http::{Request, Response};
use http_client::{ClientOptions, ClientSettings, PoolLimits, Url};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use message::{Body, Headers};
use net::Resolver;
use net::tls::{ClientTls, TlsVersion};
use plugin::WorkerContext;
use tls_settings::AcmePlan;
use tokio::sync::{mpsc, oneshot};
use wire::{Known, Method};

/// The longest exchange, with the connection.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest response.
const RESPONSE_BYTES_MAX: u64 = 1 << 20;
/// A pause for a certificate authority that names none with 429 or 503.
const DEFAULT_PAUSE: Duration = Duration::from_secs(60 * 60);

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Received = Result<BytesResponse, Error>;

/// The pause that the certificate authority asked for with its last response.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestedPause(Arc<Mutex<Option<Duration>>>);

impl RequestedPause {
    pub(crate) fn get(&self) -> Option<Duration> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, response: &Response<()>) {
        let is_limited = matches!(response.status().as_u16(), 429 | 503);
        let pause = is_limited.then(|| retry_after(response).unwrap_or(DEFAULT_PAUSE));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = pause;
    }
}

fn retry_after(response: &Response<()>) -> Option<Duration> {
    let value = response.headers().get(RETRY_AFTER)?.as_bytes();
    if let Some(secs) = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()) {
        return Some(Duration::from_secs(secs));
    }
    let at = wire::date::parse_http_date(value)?;
    Some(Duration::from_secs(at.saturating_sub(net::clock::wall_secs())))
}

/// Passes requests to the task that has the sockets: those of this program stay on their thread,
/// and the trait asks for futures that may leave it.
pub(crate) struct Client {
    calls: mpsc::UnboundedSender<(Request<BodyWrapper<Bytes>>, oneshot::Sender<Received>)>,
}

impl Client {
    /// A client for the directory of a plan. Its task ends with it.
    pub(crate) fn new(plan: &AcmePlan) -> Result<(Box<Client>, RequestedPause), String> {
        let tls = ClientTls::new(net::tls::ClientOptions {
            authorities: plan.authorities.clone(),
            verify: true,
            certificate: None,
            min_version: TlsVersion::Tls12,
            protocols: vec![b"http/1.1".to_vec()],
        })?;
        let settings = ClientSettings {
            name: "acme".to_owned(),
            tls: Some(tls),
            server_name: None,
            connect: EXCHANGE_TIMEOUT,
            limits: PoolLimits { max_idle: 0, max_requests: 1, ..PoolLimits::default() },
            options: ClientOptions { via: false, ..ClientOptions::default() }.into(),
        };
        let client = http_client::Client::new(&WorkerContext::default(), settings);
        let pause = RequestedPause::default();
        let (calls, mut received) =
            mpsc::unbounded_channel::<(Request<BodyWrapper<Bytes>>, oneshot::Sender<Received>)>();
        let noted = pause.clone();
        net::task::spawn_local(async move {
            while let Some((request, respond)) = received.recv().await {
                let result =
                    exchange(request, &client).await.map_err(Error::Other).map(|(head, body)| {
                        noted.note(&head);
                        BytesResponse { parts: head.into_parts().0, body: Box::new(body) }
                    });
                // The attempt may have been given up.
                let _ = respond.send(result);
            }
        });
        Ok((Box::new(Client { calls }), pause))
    }
}

impl HttpClient for Client {
    fn request(
        &self,
        request: Request<BodyWrapper<Bytes>>,
    ) -> Pin<Box<dyn Future<Output = Received> + Send>> {
        let (respond, response) = oneshot::channel();
        let is_sent = self.calls.send((request, respond)).is_ok();
        Box::pin(async move {
            let ended = || Error::Other("the client has ended".into());
            if is_sent { response.await.map_err(|_| ended())? } else { Err(ended()) }
        })
    }
}

/// Sends a request and receives its whole response.
async fn exchange(
    request: Request<BodyWrapper<Bytes>>,
    client: &http_client::Client,
) -> Result<(Response<()>, Bytes), Failure> {
    let (head, body) = request.into_parts();
    let body = BytesResponse::from(Response::new(body)).body.into_bytes().await?;
    let url: Url = head.uri.to_string().parse()?;
    if !url.is_secure {
        return Err(format!("{url} is not a https URL").into());
    }
    let mut headers = Headers::new();
    headers.append(Known::Host, &url.authority);
    for (name, value) in &head.headers {
        headers.append(name.as_str(), value.as_bytes());
    }
    let method = Method::from_bytes(head.method.as_str().as_bytes());
    let request = message::Request::made_up(method, url.target.clone(), headers);
    let (timeout, body) = (EXCHANGE_TIMEOUT, Body::Bytes(body));
    let response = client
        .fetch(&Resolver::system(), &url, &request, body, timeout, RESPONSE_BYTES_MAX)
        .await
        .map_err(|fault| format!("cannot reach {url}: {}", fault.detail))?;
    let mut head = Response::builder().status(response.status).body(())?;
    for field in response.headers.iter() {
        let name = HeaderName::from_bytes(field.name)?;
        head.headers_mut().append(name, HeaderValue::from_bytes(field.value)?);
    }
    let Body::Bytes(body) = response.body else { return Err("the body is not whole".into()) };
    Ok((head, body))
}
