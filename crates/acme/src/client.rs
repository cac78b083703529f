//! The HTTP client that `instant-acme` uses: one request over one connection with TLS, on the
//! control thread.
//!
//! Owns its time-outs and the limit on responses. A connection serves one request: there are a
//! dozen of them every two months.

use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use http::header::{HeaderName, HeaderValue, RETRY_AFTER};
use http::{Request, Response};
use instant_acme::{BodyWrapper, BytesResponse, Error, HttpClient};
use net::tls::{CertificateName, ClientOptions, ClientTls, TlsVersion};
use net::{Outgoing, Resolver, Stream};
use tls_settings::AcmePlan;
use tokio::sync::{mpsc, oneshot};
use wire::h1::{ChunkDecoder, ChunkEvent, HeadLimits, ResponseFraming, parse_response};

/// The longest exchange, with the connection.
const EXCHANGE_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest response.
const RESPONSE_BYTES_MAX: usize = 1 << 20;
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
        let tls = ClientTls::new(ClientOptions {
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
    let stream = connect(host, head.uri.port_u16().unwrap_or(443), tls)
        .await
        .map_err(|why| format!("cannot reach {}: {why}", head.uri))?;
    let path = head.uri.path_and_query().map_or("/", |path| path.as_str());
    let authority = head.uri.authority().map_or(host, |authority| authority.as_str());
    let mut text = format!("{} {path} HTTP/1.1\r\nhost: {authority}\r\n", head.method).into_bytes();
    for (name, value) in &head.headers {
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    let end = format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len());
    text.extend_from_slice(end.as_bytes());
    let mut outgoing = Outgoing::default();
    outgoing.push(Bytes::from(text));
    outgoing.push(body);
    stream.send_all(&mut outgoing).await?;
    receive(&stream, head.method == http::Method::HEAD).await
}

async fn connect(host: &str, port: u16, tls: &ClientTls) -> Result<Stream, Failure> {
    let name = CertificateName::new(host).ok_or("it is not a host name")?;
    let addresses = match host.parse::<IpAddr>() {
        Ok(address) => vec![(address, port).into()],
        Err(_) => {
            let resolved = Resolver::system().resolve(host, port).await;
            resolved.map_err(|error| error.to_string())?.addresses
        }
    };
    let mut failed: Failure = "it has no address".into();
    for address in addresses {
        match Stream::connect_tcp(address).await {
            Ok(stream) => return Ok(stream.connect_tls(tls, &name).await?),
            Err(error) => failed = error.into(),
        }
    }
    Err(failed)
}

async fn receive(stream: &Stream, is_head: bool) -> Result<(Response<()>, Bytes), Failure> {
    let malformed = |why: wire::Reject| format!("malformed response: {why:?}");
    let (limits, mut fields) = (HeadLimits::default(), Vec::new());
    let mut received = BytesMut::new();
    let (head, framing) = loop {
        more(stream, &mut received).await?;
        let parsed = parse_response(&received, &limits, &mut fields, is_head);
        let Some(parsed) = parsed.map_err(malformed)? else { continue };
        let mut head = Response::builder().status(parsed.status).body(())?;
        for field in &fields {
            let name = HeaderName::from_bytes(field.name().of(&received))?;
            head.headers_mut().append(name, HeaderValue::from_bytes(field.value().of(&received))?);
        }
        let is_interim = parsed.is_interim();
        received.advance(parsed.len);
        if !is_interim {
            break (head, parsed.framing);
        }
    };
    let body = match framing {
        ResponseFraming::None => Bytes::new(),
        ResponseFraming::Length(length) => {
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            while received.len() < length {
                more(stream, &mut received).await?;
            }
            received.split_to(length).freeze()
        }
        ResponseFraming::Chunked => {
            let (mut decoder, mut body) = (ChunkDecoder::new(limits.headers), BytesMut::new());
            loop {
                let mut input = received.split().freeze();
                while !input.is_empty() && !decoder.is_done() {
                    let event = decoder.next(&mut input).map_err(malformed)?;
                    if let ChunkEvent::Data(data) = event {
                        body.extend_from_slice(&data);
                    }
                }
                if decoder.is_done() {
                    break body.freeze();
                }
                more(stream, &mut received).await?;
            }
        }
        ResponseFraming::UntilClose => {
            while more(stream, &mut received).await.is_ok() {}
            received.freeze()
        }
    };
    Ok((head, body))
}

/// Receives some bytes; the end of the stream is an error.
async fn more(stream: &Stream, received: &mut BytesMut) -> Result<(), Failure> {
    let chunk = stream.receive().await?;
    received.extend_from_slice(&chunk);
    if chunk.is_empty() {
        return Err("the connection ended before the response".into());
    }
    if received.len() > RESPONSE_BYTES_MAX {
        return Err("the response is too long".into());
    }
    Ok(())
}
