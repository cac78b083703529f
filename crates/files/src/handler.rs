//! The handler: known files at once, everything else over the blocking pool.

use std::rc::Rc;
use std::sync::Arc;

use exchange::{Fault, FaultKind, Handler, MaybeFuture, Outcome, Request, Response, WorkerContext};
use net::clock::Moment;
use net::files::OpenError;
use wire::{Known, Method};

use crate::answer::respond;
use crate::cache::{Budget, Cache};
use crate::find::{Located, find, find_fallback};
use crate::listing;
use crate::record::{Files, KIND};
use crate::resource::Resource;

/// The name under which the fallback is known. No path of a request begins like this.
const FALLBACK: &str = "fallback";

pub(crate) struct Life {
    files: Arc<Files>,
    cache: Rc<Cache>,
}

impl Life {
    pub(crate) fn new(files: Arc<Files>, worker: &WorkerContext) -> Life {
        // Everything that changes what a path leads to; two Plans that agree share what is known.
        let identity = format!("{files:?}");
        let cache = worker.local.get(identity, || {
            let budget = worker.local.get((), Budget::default);
            Cache::new(budget)
        });
        Life { files, cache }
    }

    async fn answer_at(&self, request: &Request, now: Moment) -> Outcome {
        let path = request.target.path();
        match self.locate(path, now, find).await {
            Ok(Answer::Resource(resource)) => respond(&resource, request),
            Ok(Answer::NeedsSlash) => Ok(with_slash(request)),
            Ok(Answer::Listing(items)) => Ok(listing::response(path, &items, &request.headers)),
            Err(OpenError::Missing) if self.falls_back(request) => {
                match self.locate(FALLBACK, now, |files, _| find_fallback(files)).await {
                    Ok(Answer::Resource(resource)) => respond(&resource, request),
                    Ok(_) => Err(Fault::not_found()),
                    Err(refusal) => Err(fault(refusal)),
                }
            }
            Err(refusal) => Err(fault(refusal)),
        }
    }

    /// What lies at a path, from what is known or from the disk.
    async fn locate(
        &self,
        path: &str,
        now: Moment,
        find: impl FnOnce(&Files, &str) -> Result<Located, OpenError> + Send + 'static,
    ) -> Result<Answer, OpenError> {
        if let Some(resource) = self.cache.fresh(path, now) {
            return Ok(Answer::Resource(resource));
        }
        if let Some(claim) = self.cache.claim(path, now) {
            let (files, probes) = (self.files.clone(), claim.resource.probes.clone());
            if blocking(move || Ok(probes.still_hold(&files))).await? {
                return Ok(Answer::Resource(claim.confirm()));
            }
            self.cache.remove(path);
        }
        let (files, name) = (self.files.clone(), path.to_owned());
        let found = blocking(move || match find(&files, &name)? {
            Located::Listing(folder, path) => {
                let items = listing::items(&files, &folder, &path)?;
                Ok(OpenedPath::Listing(items))
            }
            Located::Resource(resource) => Ok(OpenedPath::Resource(resource)),
            Located::NeedsSlash => Ok(OpenedPath::NeedsSlash),
        });
        Ok(match found.await? {
            OpenedPath::Listing(items) => Answer::Listing(items),
            OpenedPath::NeedsSlash => Answer::NeedsSlash,
            OpenedPath::Resource(resource) => {
                let resource: Rc<Resource> = Rc::from(resource);
                self.cache.insert(path, resource.clone(), now);
                Answer::Resource(resource)
            }
        })
    }

    /// Whether a missing path is the business of an application in the browser: not where an image
    /// or a script was asked for.
    fn falls_back(&self, request: &Request) -> bool {
        let last = request.target.path().rsplit('/').next().unwrap_or_default();
        let accepts_html = || {
            request.headers.joined(Known::Accept).is_some_and(|accept| {
                wire::token::list(&accept).any(|range| range.starts_with(b"text/html"))
            })
        };
        self.files.spa.is_some() && (!last.contains('.') || accepts_html())
    }
}

/// What the blocking pool gives back.
enum OpenedPath {
    Resource(Box<Resource>),
    NeedsSlash,
    Listing(Vec<listing::Item>),
}

enum Answer {
    Resource(Rc<Resource>),
    NeedsSlash,
    Listing(Vec<listing::Item>),
}

impl Handler for Life {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Outcome> {
        if !matches!(request.method, Method::Get | Method::Head) {
            return Err(Fault::method_not_allowed("GET, HEAD")).into();
        }
        let now = net::clock::now();
        match self.cache.fresh(request.target.path(), now) {
            Some(resource) => respond(&resource, request).into(),
            None => MaybeFuture::of(self.answer_at(request, now)),
        }
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, OpenError> + Send + 'static,
) -> Result<T, OpenError> {
    net::blocking(work).await.map_err(OpenError::Failed)?
}

/// The folder's path with its slash, relative to what the client asked for: a filter may have
/// rewritten the path. `./` in front, because a name with a colon would begin a scheme.
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
        OpenError::Special => Fault::new(FaultKind::NotFound, "neither a file nor a folder"),
        OpenError::Failed(error) => Fault::internal(format!("a file cannot be opened: {error}")),
    }
}

#[cfg(test)]
mod tests;
