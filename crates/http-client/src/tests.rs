//! The client side against servers that say exactly what a test wants, over real sockets.

mod answers;
mod client;
mod failures;
mod multiplexing;
mod pooling;
mod requests;
mod tunnels;

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use net::{Bind, ListenOptions, Listener, Listening, Outgoing, Stream};
use wire::Method;

use crate::{
    Call, ClientOptions, Destination, Endpoint, HostField, Pool, PoolLimits, Upgrade, send_request,
};
use message::{Body, Fault, Headers, Request, Response, Target};
use plugin::{Local, Shared, WorkerContext};

/// A server whose every word a test writes.
struct Server {
    listener: Listener,
    endpoint: Endpoint,
}

impl Server {
    fn start() -> Server {
        let anywhere = Bind::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
        let listening = Listening::bind(&anywhere, 1, &ListenOptions::default()).unwrap();
        let Bind::Tcp(address) = *listening.local() else { panic!("TCP was requested") };
        let listener = listening.into_sockets().remove(0).adopt().unwrap();
        Server { listener, endpoint: Destination::Tcp(address).into() }
    }

    /// The next connection.
    async fn accept(&self) -> Stream {
        self.listener.accept().await.unwrap().stream
    }

    /// Takes a connection, reads the head of a request and sends `answer`; the connection, still
    /// open.
    async fn answer(&self, answer: impl AsRef<[u8]>) -> Stream {
        let stream = self.accept().await;
        read_head(&stream).await;
        send(&stream, answer).await;
        stream
    }

    /// The same, and then waits for the client to close; returns what else it sent.
    async fn answer_to_the_end(&self, answer: impl AsRef<[u8]>) -> Vec<u8> {
        read_end(&self.answer(answer).await).await
    }

    fn pool(&self, context: &WorkerContext) -> Rc<Pool> {
        Pool::of(context, "test", &self.endpoint, PoolLimits::default())
    }
}

/// A server and the pool of a gateway that knows no other.
fn alone() -> (Server, Rc<Pool>) {
    let server = Server::start();
    let pool = server.pool(&context());
    (server, pool)
}

async fn send(stream: &Stream, bytes: impl AsRef<[u8]>) {
    let mut outgoing = Outgoing::default();
    outgoing.push(Bytes::copy_from_slice(bytes.as_ref()));
    stream.send_all(&mut outgoing).await.unwrap();
}

/// Reads until the text so far ends with `end`.
async fn read_to(stream: &Stream, end: &str) -> String {
    let mut text = Vec::new();
    while !text.ends_with(end.as_bytes()) {
        let chunk = stream.receive().await.unwrap();
        assert!(!chunk.is_empty(), "closed after {:?}", String::from_utf8_lossy(&text));
        text.extend_from_slice(&chunk);
    }
    String::from_utf8(text).unwrap()
}

async fn read_head(stream: &Stream) -> String {
    read_to(stream, "\r\n\r\n").await
}

/// Waits for the end of the connection; returns what preceded it.
async fn read_end(stream: &Stream) -> Vec<u8> {
    let mut rest = Vec::new();
    loop {
        match stream.receive().await {
            Ok(chunk) if !chunk.is_empty() => rest.extend_from_slice(&chunk),
            // A reset is an end, too.
            _ => return rest,
        }
    }
}

fn context_of(shared: &Arc<Shared>, index: usize, workers: usize) -> WorkerContext {
    WorkerContext {
        index,
        workers,
        telemetry: Arc::default(),
        shared: shared.clone(),
        local: Rc::new(Local::default()),
    }
}

fn context() -> WorkerContext {
    context_of(&Arc::default(), 0, 1)
}

fn request(method: Method) -> Request {
    let target = Target::new(Bytes::from_static(b"/path?q=1")).unwrap();
    let mut headers = Headers::new();
    headers.append("Host", "shop.example");
    Request::made_up(method, target, headers)
}

/// Patient enough for any machine, so that a test that hangs fails.
fn options() -> ClientOptions {
    let long = Duration::from_secs(20);
    ClientOptions { response: long, read: long, write: long, ..ClientOptions::default() }
}

async fn ask_with(
    pool: &Rc<Pool>,
    request: &Request,
    body: Body,
    options: ClientOptions,
) -> Result<Response, Fault> {
    let lease = match pool.take(Upgrade::None) {
        Some(lease) => lease,
        None => pool.connect(Duration::from_secs(20), None, Upgrade::None).await?,
    };
    let options = Rc::new(options);
    let call = Call { options: &options, host: &HostField::Preserve, server: "server:1" };
    send_request(lease, request, body, &call).await
}

async fn ask(pool: &Rc<Pool>, request: &Request, body: Body) -> Result<Response, Fault> {
    ask_with(pool, request, body, options()).await
}

async fn get(pool: &Rc<Pool>) -> Result<Response, Fault> {
    ask(pool, &request(Method::Get), Body::Empty).await
}

/// Returns the result of a GET to a server that sends `answer` and closes, with the whole body, if
/// there is one.
async fn get_answered(answer: impl AsRef<[u8]>) -> (Result<Response, Fault>, Result<Bytes, Fault>) {
    let (server, pool) = alone();
    let serve = async { drop(server.answer(answer).await) };
    let ask = async {
        let mut outcome = get(&pool).await;
        let body = match &mut outcome {
            Ok(response) => response.body.collect(1 << 20).await,
            Err(_) => Ok(Bytes::new()),
        };
        (outcome, body)
    };
    let ((), answered) = tokio::join!(serve, ask);
    answered
}
