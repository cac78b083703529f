//! A route with the cache filter and an origin that responds as a test decides.

use std::future::poll_fn;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use cache::{Cache, Caches};
use message::{
    Body, Fault, FaultKind, HandlerResult, Headers, Notes, Request, Response, RouteBounds,
    SharedBody, Target,
};
use plugin::{Handler, HandlerPlan, Local, MaybeFuture, Route, Shared, Stage, WorkerContext};
use settings::{Node, Reader, Report, node};
use telemetry::Telemetry;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use wire::Method;

const TIMEOUT: Duration = Duration::from_secs(60);

/// State that all workers of a test share.
#[derive(Clone)]
pub(crate) struct Site {
    settings: fn() -> Node,
    shared: Arc<Shared>,
    telemetry: Arc<Telemetry>,
    caches: Arc<Caches>,
    calls: mpsc::UnboundedSender<Call>,
}

/// The origin's end of the test.
pub(crate) struct Origin(mpsc::UnboundedReceiver<Call>);

/// A request that has reached the origin.
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) target: String,
    pub(crate) headers: Headers,
    responder: oneshot::Sender<ClientResponse>,
}

/// The response of the origin.
pub(crate) struct ClientResponse {
    status: u16,
    headers: Headers,
    body: Content,
}

enum Content {
    Whole(Bytes),
    SharedBody(SharedBody),
    Fault(Fault),
}

impl Site {
    pub(crate) fn plain() -> (Site, Origin) {
        Site::new(|| node!("pages"))
    }

    /// `settings` are those of the filter; its store is `pages`.
    pub(crate) fn new(settings: fn() -> Node) -> (Site, Origin) {
        let (calls, received) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared::default());
        let caches = Caches::of(&shared);
        (Site { settings, caches, shared, telemetry: Arc::default(), calls }, Origin(received))
    }

    /// With a store of so much memory.
    pub(crate) fn with_memory(size: &'static str) -> (Site, Origin) {
        let (site, origin) = Site::plain();
        let settings = settings::read::<cache::CacheSettings>(&node!(size)).unwrap();
        site.caches.apply([("pages", &settings)], &site.telemetry);
        (site, origin)
    }

    pub(crate) fn caches(&self) -> &Caches {
        &self.caches
    }

    pub(crate) fn telemetry(&self) -> &Telemetry {
        &self.telemetry
    }

    pub(crate) fn cache(&self) -> Arc<Cache> {
        self.caches.get("pages").unwrap()
    }

    /// The route as one worker has it.
    pub(crate) fn worker(&self, index: usize) -> Rc<Route> {
        self.worker_with(index, Waiting(self.calls.clone()))
    }

    /// The same before another handler.
    pub(crate) fn worker_with(&self, index: usize, handler: impl Handler + 'static) -> Rc<Route> {
        self.worker_between(index, Vec::new(), handler, None)
    }

    /// The same with filters before the cache, and the upstream of the setting `owners`.
    pub(crate) fn worker_of_fleet(
        &self,
        before: Vec<Stage>,
        owners: Arc<dyn HandlerPlan>,
    ) -> Rc<Route> {
        self.worker_between(0, before, Waiting(self.calls.clone()), Some(owners))
    }

    fn worker_between(
        &self,
        index: usize,
        mut stages: Vec<Stage>,
        handler: impl Handler + 'static,
        owners: Option<Arc<dyn HandlerPlan>>,
    ) -> Rc<Route> {
        let context = WorkerContext {
            index,
            workers: 2,
            telemetry: self.telemetry.clone(),
            shared: self.shared.clone(),
            local: Rc::new(Local::default()),
        };
        let mut report = Report::new();
        let node = (self.settings)();
        let plan = (cache::FILTER.read)(&node, &mut Reader::new(&mut report));
        assert!(report.is_empty(), "{}", report.render());
        let plan = plan.unwrap();
        for (setting, owners) in plan.handlers().into_iter().zip(owners) {
            setting.resolve(owners);
        }
        stages.push(plan.build_on("one".into(), &context));
        Rc::new(Route::new(
            "one",
            RouteBounds::default(),
            self.telemetry.route(index, "one"),
            stages,
            Rc::new(handler),
        ))
    }

    /// What a counter of the cache has come to, over all workers.
    pub(crate) fn counted(&self, family: &str, label: Option<&str>) -> u64 {
        let all = self.telemetry.collect();
        let found = all.iter().filter(|found| found.family.name == family);
        let samples = found.flat_map(|found| &found.samples);
        let wanted = samples
            .filter(|sample| label.is_none_or(|label| sample.labels.iter().any(|l| l == label)));
        wanted
            .map(|sample| match sample.value {
                telemetry::Value::Counter(count) => count,
                _ => 0,
            })
            .sum()
    }
}

/// The handler: asks the test.
struct Waiting(mpsc::UnboundedSender<Call>);

impl Handler for Waiting {
    fn name(&self) -> &'static str {
        "waiting"
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        MaybeFuture::of(async move {
            request.notes.upstream = Some(Rc::from("the origin"));
            let (responder, response) = oneshot::channel();
            let call = Call {
                method: request.method.clone(),
                target: String::from_utf8(request.target.raw().to_vec()).unwrap(),
                headers: request.headers.clone(),
                responder,
            };
            assert!(self.0.send(call).is_ok(), "the origin has gone");
            let sent = response.await.map_err(|_| Fault::internal("no response"))?;
            let mut response = Response::new(sent.status);
            response.headers = sent.headers;
            response.body = match sent.body {
                Content::Whole(bytes) => Body::from(bytes),
                Content::SharedBody(content) => content.body(),
                Content::Fault(fault) => return Err(fault),
            };
            Ok(response)
        })
    }
}

impl Origin {
    /// The next request that comes.
    pub(crate) async fn next_call(&mut self) -> Call {
        let received = net::timer::within(TIMEOUT, self.0.recv()).await;
        received.expect("the origin is not asked").unwrap()
    }

    /// The request that has come, if there is one.
    pub(crate) fn asked_already(&mut self) -> Option<Call> {
        self.0.try_recv().ok()
    }

    /// True if it got no request.
    pub(crate) fn is_idle(&mut self) -> bool {
        self.asked_already().is_none()
    }
}

impl Call {
    pub(crate) fn respond(self, response: ClientResponse) {
        // The client may have given up.
        let _ = self.responder.send(response);
    }

    /// Waits until the client has given up.
    pub(crate) async fn given_up(&mut self) {
        net::timer::within(TIMEOUT, self.responder.closed()).await.expect("it is still waited for");
    }

    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.headers.get_str(name)
    }
}

/// A response with these fields and this body.
pub(crate) fn response_with(
    status: u16,
    fields: &[(&str, &str)],
    body: &'static str,
) -> ClientResponse {
    let body = Content::Whole(Bytes::from_static(body.as_bytes()));
    ClientResponse { status, headers: headers(fields), body }
}

/// One whose body is not text.
pub(crate) fn bytes_response(fields: &[(&str, &str)], body: Vec<u8>) -> ClientResponse {
    ClientResponse {
        status: 200,
        headers: headers(fields),
        body: Content::Whole(Bytes::from(body)),
    }
}

/// One whose body the test adds to.
pub(crate) fn growing_response(fields: &[(&str, &str)], content: &SharedBody) -> ClientResponse {
    let body = Content::SharedBody(content.clone());
    ClientResponse { status: 200, headers: headers(fields), body }
}

pub(crate) fn fault(status: u16) -> ClientResponse {
    let fault = Fault::new(FaultKind::ConnectionRefused, "on purpose")
        .with_status(status)
        .with_retry(message::Retry::Never);
    ClientResponse { status, headers: Headers::new(), body: Content::Fault(fault) }
}

/// What a filter behind the cache says to one client.
pub(crate) fn refusal(status: u16) -> ClientResponse {
    let body = Content::Fault(Fault::new(FaultKind::Forbidden, "").with_status(status));
    ClientResponse { status, headers: Headers::new(), body }
}

fn headers(fields: &[(&str, &str)]) -> Headers {
    let mut headers = Headers::new();
    for (name, value) in fields {
        headers.append(*name, *value);
    }
    headers
}

/// What a client was given.
#[derive(Debug)]
pub(crate) struct Got {
    pub(crate) status: u16,
    pub(crate) headers: Headers,
    pub(crate) body: Body,
    /// What the log will say.
    pub(crate) notes: Notes,
}

impl Got {
    pub(crate) fn field(&self, name: &str) -> &str {
        self.headers.get_str(name).unwrap_or_default()
    }

    /// The rest of the body.
    pub(crate) async fn text(mut self) -> Result<String, Fault> {
        let whole = net::timer::within(TIMEOUT, self.body.collect(1 << 30)).await;
        Ok(String::from_utf8(whole.expect("the body does not end")?.to_vec()).unwrap())
    }

    /// Exactly the next piece of the body.
    pub(crate) async fn piece(&mut self) -> String {
        let frame = net::timer::within(TIMEOUT, self.body.frame()).await.expect("a piece");
        let Some(Ok(message::Frame::Data(data))) = frame else { panic!("no data") };
        String::from_utf8(data.to_vec()).unwrap()
    }
}

pub(crate) fn request(method: Method, target: &str, fields: &[(&str, &str)]) -> Request {
    let mut fields = headers(fields);
    fields.append("Host", "a");
    let target = Target::new(Bytes::copy_from_slice(target.as_bytes())).unwrap();
    Request::made_up(method, target, fields)
}

/// A client on this worker, run until it first waits.
pub(crate) async fn begin(
    route: &Rc<Route>,
    mut request: Request,
) -> JoinHandle<Result<Got, Fault>> {
    let route = route.clone();
    let mut run = Box::pin(async move {
        let Response { status, headers, body, .. } = route.run(&mut request).await?;
        Ok(Got { status, headers, body, notes: request.notes })
    }) as Pin<Box<dyn Future<Output = Result<Got, Fault>>>>;
    let mut early = None;
    poll_fn(|cx| {
        if let Poll::Ready(done) = run.as_mut().poll(cx) {
            early = Some(done);
        }
        Poll::Ready(())
    })
    .await;
    tokio::task::spawn_local(async move {
        match early {
            Some(done) => done,
            None => run.await,
        }
    })
}

pub(crate) async fn get(route: &Rc<Route>, target: &str) -> JoinHandle<Result<Got, Fault>> {
    begin(route, request(Method::Get, target, &[])).await
}

pub(crate) async fn get_with(
    route: &Rc<Route>,
    target: &str,
    fields: &[(&str, &str)],
) -> JoinHandle<Result<Got, Fault>> {
    begin(route, request(Method::Get, target, fields)).await
}

/// What became of it.
pub(crate) async fn done(client: JoinHandle<Result<Got, Fault>>) -> Result<Got, Fault> {
    net::timer::within(TIMEOUT, client).await.expect("no response").unwrap()
}

/// A GET that comes through, with the text that it got.
pub(crate) async fn text(client: JoinHandle<Result<Got, Fault>>) -> String {
    done(client).await.unwrap().text().await.unwrap()
}
