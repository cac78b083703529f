//! Sends a composed request to a listener of this server: `POST /v1/send`.
//!
//! The request takes the path of a client's: over a connection, through TLS where the listener has
//! it, into the log. It reaches listeners of this server only, whatever its URL names.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::rc::Rc;
use std::time::Duration;

use admin::{Question, SentResponse};
use bytes::{Bytes, BytesMut};
use http_client::{Client, ClientOptions, ClientSettings, PoolLimits, Url};
use message::{Body, Frame, Request, Response};
use net::tls::{self, CertificateName, ClientTls, TlsVersion};
use net::{Bind, Resolver};
use plugin::WorkerContext;
use wire::Known;

use crate::control::Control;
use crate::explain;

/// How long a response may take.
const WITHIN: Duration = Duration::from_secs(30);
/// The content that is shown; the rest is not read.
const SHOWN_BYTES: usize = 64 * 1024;

/// Sends a request and returns its response. The error describes what is wrong with the request,
/// or why it has no response.
pub(crate) async fn send(
    control: &Control,
    question: &Question,
    body: Bytes,
) -> Result<SentResponse, String> {
    let plan = control.plan();
    let mut request = explain::request(&plan, question)?;
    check(question, &request)?;
    let name = request.facts.listener.clone();
    let bound = control.bound();
    let address = bound.iter().find(|bound| *bound.name == *name).map(|bound| &bound.address);
    let Some(Bind::Tcp(address)) = address else {
        return Err(format!("the listener {name:?} has no TCP port to send a request to"));
    };
    let has_tls = plan.listener(&name).is_some_and(|listener| listener.tls.is_some());
    let host = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    let url = Url {
        is_secure: has_tls,
        host: host.to_string(),
        port: address.port(),
        authority: String::from_utf8_lossy(request.host()).into_owned(),
        target: request.target.clone(),
    };
    if request.headers.get(Known::Host).is_none() {
        request.headers.append(Known::Host, address.to_string());
    }
    let client = Client::new(&WorkerContext::default(), settings(&request, has_tls)?);
    let began_us = net::clock::precise_us();
    let exchange = async {
        let connection = client.connect(&Resolver::system(), &url).await?;
        let body = if body.is_empty() { Body::Empty } else { Body::Bytes(body) };
        let response = client.send(connection, &request, body).await?;
        Ok(shown(response).await)
    };
    let late = || Err(format!("there is no whole response within {} s", WITHIN.as_secs()));
    let sent = net::timer::within(WITHIN, exchange).await;
    let sent = sent.map(|sent| sent.map_err(|fault: message::Fault| fault.detail.into_owned()));
    let sent = sent.unwrap_or_else(late)?;
    let duration_us = net::clock::precise_us().saturating_sub(began_us);
    Ok(SentResponse { listener: name.to_string(), duration_us, ..sent })
}

/// Rejects what would not arrive as it is written.
fn check(question: &Question, request: &Request) -> Result<(), String> {
    if question.client_ip.is_some() {
        return Err("a request that is sent has the address of this machine: leave out \
                    client_ip, or explain the request instead"
            .to_owned());
    }
    for field in request.headers.iter() {
        let name = String::from_utf8_lossy(field.name);
        if field.known.is_some_and(Known::is_framing) && field.known != Some(Known::Host) {
            return Err(format!("{name} is set by the connection"));
        }
    }
    // `Headers` would have made spaces of them.
    for (name, value) in &question.headers {
        if value.bytes().any(|byte| byte < b' ' && byte != b'\t' || byte == 0x7f) {
            return Err(format!("the value of {name} has control characters"));
        }
    }
    Ok(())
}

fn settings(request: &Request, has_tls: bool) -> Result<ClientSettings, String> {
    // The certificate is not verified: the address is that of our own listener, and the request is
    // to show what clients get even where the certificate has expired.
    let options = tls::ClientOptions {
        authorities: None,
        verify: false,
        certificate: None,
        min_version: TlsVersion::Tls12,
        protocols: Vec::new(),
    };
    let name = String::from_utf8_lossy(request.host()).into_owned();
    Ok(ClientSettings {
        name: "send".to_owned(),
        tls: has_tls.then(|| ClientTls::new(options)).transpose()?,
        server_name: CertificateName::new(&name),
        connect: WITHIN,
        limits: PoolLimits { max_idle: 0, ..PoolLimits::default() },
        options: Rc::new(ClientOptions { via: false, ..ClientOptions::default() }),
    })
}

/// The response with the beginning of its content.
async fn shown(mut response: Response) -> SentResponse {
    let headers = response.headers.iter().map(|field| {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (text(field.name), text(field.value))
    });
    let headers = headers.collect();
    let mut content = BytesMut::new();
    let mut failed = None;
    while content.len() <= SHOWN_BYTES {
        match response.body.frame().await {
            Some(Ok(Frame::Data(data))) => content.extend_from_slice(&data),
            Some(Ok(_)) => {}
            Some(Err(fault)) => {
                failed = Some(fault.detail.into_owned());
                break;
            }
            None => break,
        }
    }
    let is_cut = content.len() > SHOWN_BYTES;
    content.truncate(SHOWN_BYTES);
    SentResponse {
        status: response.status,
        headers,
        content: content.freeze(),
        is_cut,
        failed,
        ..SentResponse::default()
    }
}
