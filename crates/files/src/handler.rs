//! The handler: responds to known files at once, to all others through the blocking pool.

use std::rc::Rc;
use std::sync::Arc;

use message::{Fault, FaultKind, HandlerResult, Request, Response};
use net::clock::Moment;
use net::files::OpenError;
use plugin::{Handler, HandlerKind, HandlerPlan, MaybeFuture, WorkerContext};
use settings::{Node, Reader, Setting};
use wire::{Known, Method};

use crate::cache::{Budget, Cache};
use crate::find::{Located, find, find_fallback};
use crate::listing;
use crate::record::Files;
use crate::resource::Resource;
use crate::response::respond;

/// The kind, registered with the configuration.
pub const KIND: HandlerKind = HandlerKind { name: "files", schema: Files::schema, read };

/// The key of the fallback in the cache. No path of a request begins like this.
const FALLBACK: &str = "fallback";

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn HandlerPlan>> {
    let files = Files::read(node, reader)?;
    // Not part of the declaration: the directories of its examples need not exist.
    if !files.root.is_dir() {
        let span = node.get("root").unwrap_or(node).span;
        reader.error(span, format!("there is no directory {}", files.root));
        reader.report().depends_on(files.root.to_path_buf());
        return None;
    }
    Some(Arc::new(FilesPlan(Arc::new(files))))
}

struct FilesPlan(Arc<Files>);

impl HandlerPlan for FilesPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Rc<dyn Handler> {
        Rc::new(FilesHandler::new(self.0.clone(), worker))
    }

    fn describe(&self) -> String {
        let files = &self.0;
        let spa = files.spa.as_ref().map(|spa| format!(", else {spa}"));
        let listing = if files.listing { ", listed" } else { "" };
        format!("{}{}{listing}", files.root, spa.unwrap_or_default())
    }
}

pub(crate) struct FilesHandler {
    files: Arc<Files>,
    cache: Rc<Cache>,
}

impl FilesHandler {
    pub(crate) fn new(files: Arc<Files>, worker: &WorkerContext) -> FilesHandler {
        // All settings that change what a path leads to: two plans with equal ones share the cache.
        let identity = format!("{files:?}");
        let cache = worker.local.get(identity, || {
            let budget = worker.local.get((), Budget::default);
            Cache::new(budget)
        });
        FilesHandler { files, cache }
    }

    async fn respond_at(&self, request: &Request, now: Moment) -> HandlerResult {
        let path = request.target.path();
        match self.locate(path, now, find).await {
            Ok(FileResponse::Resource(resource)) => respond(&resource, request),
            Ok(FileResponse::NeedsSlash) => Ok(with_slash(request)),
            Ok(FileResponse::Listing(items)) => {
                Ok(listing::response(path, &items, &request.headers))
            }
            Err(OpenError::Missing) if self.files.spa.is_some() => {
                self.fall_back(request, now).await
            }
            Err(refusal) => Err(fault(refusal)),
        }
    }

    /// Responds to a missing path with the page of an application in the browser: not if an image
    /// or a script was requested. Where Accept decides that, caches are told (RFC 9110 12.5.5).
    async fn fall_back(&self, request: &Request, now: Moment) -> HandlerResult {
        let last = request.target.path().rsplit('/').next().unwrap_or_default();
        let decided_by_accept = last.contains('.');
        if decided_by_accept && !accepts_html(request) {
            return Err(Fault::not_found().with_field(Known::Vary, "Accept"));
        }
        let mut response = match self.locate(FALLBACK, now, |files, _| find_fallback(files)).await {
            Ok(FileResponse::Resource(resource)) => respond(&resource, request)?,
            Ok(_) => return Err(Fault::not_found()),
            Err(refusal) => return Err(fault(refusal)),
        };
        if decided_by_accept {
            response.headers.append(Known::Vary, "Accept");
        }
        Ok(response)
    }

    /// Finds what is at a path, in the cache or on disk.
    async fn locate(
        &self,
        path: &str,
        now: Moment,
        find: impl FnOnce(&Files, &str) -> Result<Located, OpenError> + Send + 'static,
    ) -> Result<FileResponse, OpenError> {
        if let Some(resource) = self.cache.fresh(path, now) {
            return Ok(FileResponse::Resource(resource));
        }
        if let Some(claim) = self.cache.claim(path, now) {
            let (files, probes) = (self.files.clone(), claim.resource.probes.clone());
            if blocking(move || Ok(probes.still_hold(&files))).await? {
                return Ok(FileResponse::Resource(claim.confirm()));
            }
            self.cache.remove(path);
        }
        let (files, name) = (self.files.clone(), path.to_owned());
        let found = blocking(move || match find(&files, &name)? {
            Located::Listing(directory, path) => {
                let items = listing::items(&files, &directory, &path)?;
                Ok(OpenedPath::Listing(items))
            }
            Located::Resource(resource) => Ok(OpenedPath::Resource(resource)),
            Located::NeedsSlash => Ok(OpenedPath::NeedsSlash),
        });
        Ok(match found.await? {
            OpenedPath::Listing(items) => FileResponse::Listing(items),
            OpenedPath::NeedsSlash => FileResponse::NeedsSlash,
            OpenedPath::Resource(resource) => {
                let resource: Rc<Resource> = Rc::from(resource);
                self.cache.insert(path, resource.clone(), now);
                FileResponse::Resource(resource)
            }
        })
    }
}

fn accepts_html(request: &Request) -> bool {
    request.headers.joined(Known::Accept).is_some_and(|accept| {
        wire::token::list(&accept).any(|range| range.starts_with(b"text/html"))
    })
}

/// The result of the blocking pool.
enum OpenedPath {
    Resource(Box<Resource>),
    NeedsSlash,
    Listing(Vec<listing::Item>),
}

enum FileResponse {
    Resource(Rc<Resource>),
    NeedsSlash,
    Listing(Vec<listing::Item>),
}

impl Handler for FilesHandler {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        if !matches!(request.method, Method::Get | Method::Head) {
            return Err(Fault::method_not_allowed("GET, HEAD")).into();
        }
        let now = net::clock::now();
        match self.cache.fresh(request.target.path(), now) {
            Some(resource) => respond(&resource, request).into(),
            None => MaybeFuture::of(self.respond_at(request, now)),
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
) -> Result<T, OpenError> {
    net::blocking(work).await.map_err(OpenError::Failed)?
}

/// Redirects to the directory's path with its slash, relative to the path the client requested: a
/// filter may have rewritten it. `./` in front, because a name with a colon would begin a scheme.
fn with_slash(request: &Request) -> Response {
    let raw = request.target.raw_path();
    let name = raw.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
    let mut location = b"./".to_vec();
    location.extend_from_slice(name);
    location.push(b'/');
    if let Some(query) = request.target.query() {
        location.push(b'?');
        location.extend_from_slice(query);
    }
    let mut response = Response::new(301);
    response.headers.append(Known::Location, location);
    response
}

fn fault(refusal: OpenError) -> Fault {
    match refusal {
        OpenError::Missing => Fault::not_found(),
        OpenError::Denied => Fault::new(FaultKind::Forbidden, "the file may not be read"),
        OpenError::Special => Fault::new(FaultKind::NotFound, "neither a file nor a directory"),
        OpenError::Failed(error) => Fault::internal(format!("a file cannot be opened: {error}")),
    }
}

#[cfg(test)]
mod tests;
