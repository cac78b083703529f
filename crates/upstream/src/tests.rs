//! Tests of the handler with scripted servers, over real sockets.

mod balancing;
mod changes;
mod checks;
mod discovering;
mod ejection;
mod owning;
mod recovering;
mod resets;
mod retries;

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use message::{Body, Fault, Headers, Request, Response, Target};
use net::{Bind, ListenOptions, Listening, Outgoing, Stream};
use plugin::{Handler, Local, Shared, WorkerContext};
use settings::{MapKey, Node, Reader, Report, Span, Spanned, Value, node};
use wire::Method;

use crate::{KIND, UpstreamPlan, UpstreamSettings, Upstreams};

/// The reaction of a scripted server to a request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Does {
    Respond(u16),
    /// Reads the request and closes.
    Close,
    /// Reads the request and sends nothing.
    Hang,
}

/// A server on the test's loop that counts its requests.
struct Server {
    address: SocketAddr,
    does: Rc<Cell<Does>>,
    requests: Rc<Cell<usize>>,
    connections: Rc<Cell<usize>>,
    task: net::task::JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    fn start(does: Does) -> Server {
        let listening = listening();
        let Bind::Tcp(address) = *listening.local() else { panic!("the listener has TCP") };
        let listener = listening.into_sockets().remove(0).adopt().unwrap();
        let does = Rc::new(Cell::new(does));
        let (requests, connections) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(0)));
        let task = {
            let (does, requests) = (does.clone(), requests.clone());
            let connections = connections.clone();
            net::task::spawn_local(async move {
                while let Ok(accepted) = listener.accept().await {
                    connections.set(connections.get() + 1);
                    let serving = serve(accepted.stream, does.clone(), requests.clone());
                    net::task::spawn_local(serving);
                }
            })
        };
        Server { address, does, requests, connections, task }
    }

    fn text(&self) -> String {
        self.address.to_string()
    }
}

/// An address without a listener: no test gets such a port.
const NOWHERE: &str = "127.0.0.1:1";

/// A listener from which nothing accepts.
fn listening() -> Listening {
    let anywhere = Bind::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
    Listening::bind(&anywhere, 1, &ListenOptions::default()).unwrap()
}

async fn serve(stream: Stream, does: Rc<Cell<Does>>, requests: Rc<Cell<usize>>) {
    let mut received = Vec::new();
    loop {
        let chunk = stream.receive().await.unwrap_or_default();
        if chunk.is_empty() {
            return;
        }
        received.extend_from_slice(&chunk);
        let text = String::from_utf8_lossy(&received);
        // Tests send bodies that end with "end".
        let whole = match text.find("\r\n\r\n") {
            Some(_) if text.starts_with("GET") => text.ends_with("\r\n\r\n"),
            Some(_) => text.ends_with("end") || text.ends_with("\r\n0\r\n\r\n"),
            None => false,
        };
        if !whole {
            continue;
        }
        received.clear();
        requests.set(requests.get() + 1);
        match does.get() {
            Does::Respond(status) => {
                let mut outgoing = Outgoing::default();
                let response = format!("HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nok");
                outgoing.push(Bytes::from(response));
                if stream.send_all(&mut outgoing).await.is_err() {
                    return;
                }
            }
            Does::Close => return,
            Does::Hang => {}
        }
    }
}

/// A gateway with one upstream, `test`.
struct Gateway {
    upstreams: Arc<Upstreams>,
    context: WorkerContext,
    handler: Rc<dyn Handler>,
}

impl Gateway {
    fn new(settings: Node) -> Gateway {
        let context = WorkerContext {
            index: 0,
            workers: 1,
            telemetry: Arc::default(),
            shared: Arc::new(Shared::default()),
            local: Rc::new(Local::default()),
        };
        let upstreams = Upstreams::of(&context.shared);
        apply(&upstreams, &context, &settings);
        let handler = handler(&context);
        Gateway { upstreams, context, handler }
    }

    fn apply(&self, settings: Node) {
        apply(&self.upstreams, &self.context, &settings);
    }

    async fn send(&self, request: &mut Request) -> Result<Response, Fault> {
        self.handler.handle(request).resolve().await
    }

    async fn get(&self) -> Result<Response, Fault> {
        self.send(&mut request(Method::Get, Body::Empty)).await
    }

    /// The status of a GET: of its response or its fault.
    async fn status(&self) -> u16 {
        match self.get().await {
            Ok(response) => response.status,
            Err(fault) => fault.status,
        }
    }

    fn states(&self) -> Vec<&'static str> {
        let status = self.upstreams.status(&self.context.shared, 1);
        status[0].servers.iter().map(|server| server.state.as_str()).collect()
    }

    /// The last changes of health, the latest first.
    fn health_changes(&self) -> Vec<String> {
        let changes = self.upstreams.health_changes("test").expect("an upstream").into_iter();
        let shown = |(server, change): (Arc<str>, crate::HealthChange)| {
            format!("{server} {}: {}", change.state.as_str(), change.why)
        };
        changes.map(shown).collect()
    }

    fn counted(&self, family: &telemetry::Family, labels: &[&str]) -> Option<telemetry::Value> {
        let all = self.context.telemetry.collect();
        let found = all.into_iter().find(|found| found.family.name == family.name)?;
        found.samples.into_iter().find(|sample| sample.labels == labels).map(|s| s.value)
    }
}

fn handler(context: &WorkerContext) -> Rc<dyn Handler> {
    let mut report = Report::new();
    let plan = (KIND.read)(&node!("test"), &mut Reader::new(&mut report)).unwrap();
    plan.build(context)
}

fn apply(upstreams: &Upstreams, context: &WorkerContext, settings: &Node) {
    let settings: UpstreamSettings = settings::read(settings).unwrap_or_else(|why| panic!("{why}"));
    let name = Spanned::new("test".to_owned(), Span::NOWHERE);
    let mut report = Report::new();
    let plan = UpstreamPlan::new(&name, settings, &mut Reader::new(&mut report));
    upstreams.apply([("test", &plan.expect("no error"))], &context.telemetry);
}

/// Settings: servers, and further ones.
fn with(servers: &[&str], more: Node) -> Node {
    let servers = servers.iter().map(|server| Node::plain(*server)).collect();
    let key = MapKey { name: "servers".to_owned(), span: Span::NOWHERE };
    let mut entries = vec![(key, Node::made(Value::List(servers)))];
    if let Value::Map(more) = more.value {
        entries.extend(more);
    }
    Node::made(Value::Map(entries))
}

fn request(method: Method, body: Body) -> Request {
    let target = Target::new(Bytes::from_static(b"/")).unwrap();
    let mut headers = Headers::new();
    headers.append("Host", "shop.example");
    Request { body, ..Request::made_up(method, target, headers) }
}
