//! The HTTP client that `instant-acme` uses: requests of its types, sent by `http-client` on the
//! control thread.
//!
//! Owns the time-out and the limit on responses. A connection serves one request: there are a dozen
//! of them every two months.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use http::{Request, Response};
use http_client::{
    Call, ClientOptions, Destination, Endpoint, HostField, Lease, Pool, PoolLimits, TlsIdentity,
    Upgrade, send_request,
};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use message::{Body, Fault, Headers, Target};
use net::Resolver;
use net::tls::{CertificateName, ClientTls, TlsVersion};
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
        let pause = RequestedPause::default();
        let (calls, mut received) =
            mpsc::unbounded_channel::<(Request<BodyWrapper<Bytes>>, oneshot::Sender<Received>)>();
        let noted = pause.clone();
        net::task::spawn_local(async move {
            while let Some((request, respond)) = received.recv().await {
                let exchanged = net::timer::within(EXCHANGE_TIMEOUT, exchange(request, &tls)).await;
                let exchanged = exchanged.unwrap_or_else(|| {
                    Err(format!("no response within {} s", EXCHANGE_TIMEOUT.as_secs()).into())
                });
                let result = exchanged.map_err(Error::Other).map(|(head, body)| {
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
    tls: &ClientTls,
) -> Result<(Response<()>, Bytes), Failure> {
    let (head, body) = request.into_parts();
    let body = BytesResponse::from(Response::new(body)).body.into_bytes().await?;
    let host = head.uri.host().ok_or("the URL has no host")?;
    if head.uri.scheme_str() != Some("https") {
        return Err(format!("{} is not a https URL", head.uri).into());
    }
    let host = host.trim_matches(['[', ']']);
    let lease = connect(host, head.uri.port_u16().unwrap_or(443), tls)
        .await
        .map_err(|why| format!("cannot reach {}: {why}", head.uri))?;
    let mut headers = Headers::new();
    headers.append(Known::Host, head.uri.authority().map_or(host, |authority| authority.as_str()));
    for (name, value) in &head.headers {
        headers.append(name.as_str(), value.as_bytes());
    }
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let target = Target::new(Bytes::copy_from_slice(path.as_bytes()))
        .map_err(|fault| format!("{}: {}", head.uri, fault.as_str()))?;
    let method = Method::from_bytes(head.method.as_str().as_bytes());
    let request = message::Request::made_up(method, target, headers);
    let options = Rc::new(ClientOptions { via: false, ..ClientOptions::default() });
    let call = Call { options: &options, host: &HostField::Preserve, server: "" };
    let mut response =
        send_request(lease, &request, Body::Bytes(body), &call).await.map_err(why)?;
    let body = response.body.collect(RESPONSE_BYTES_MAX).await.map_err(why)?;
    let mut head = Response::builder().status(response.status).body(())?;
    for field in response.headers.iter() {
        let name = HeaderName::from_bytes(field.name)?;
        head.headers_mut().append(name, HeaderValue::from_bytes(field.value)?);
    }
    Ok((head, body))
}

fn why(fault: Fault) -> Failure {
    fault.detail.into()
}

/// A connection to the first address that accepts one.
async fn connect(host: &str, port: u16, tls: &ClientTls) -> Result<Lease, Failure> {
    let name = CertificateName::new(host).ok_or("it is not a host name")?;
    let addresses = match host.parse::<IpAddr>() {
        Ok(address) => vec![(address, port).into()],
        Err(_) => {
            let resolved = Resolver::system().resolve(host, port).await;
            resolved.map_err(|error| error.to_string())?.addresses.to_vec()
        }
    };
    let context = WorkerContext {
        index: 0,
        workers: 1,
        telemetry: Arc::default(),
        shared: Arc::default(),
        local: Rc::default(),
    };
    // Each connection serves one request.
    let limits = PoolLimits { max_idle: 0, max_requests: 1, ..PoolLimits::default() };
    let mut failed: Failure = "it has no address".into();
    for address in addresses {
        let tls = Some(TlsIdentity { tls: tls.clone(), name: name.clone() });
        let endpoint = Endpoint { tls, ..Destination::Tcp(address).into() };
        let pool = Pool::of(&context, "acme", &endpoint, limits);
        match pool.connect(EXCHANGE_TIMEOUT, None, Upgrade::None).await {
            Ok(lease) => return Ok(lease),
            Err(fault) => failed = why(fault),
        }
    }
    Err(failed)
}
