//! `respond`: a fixed response, or a mock of a backend.
//!
//! Parts that do not depend on the request are created once per worker; a response without a delay
//! allocates no future.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration as Span;

use bytes::Bytes;
use settings::{Duration, FilePath, Named, Node, Reader, Setting, Size, Template};

use message::{Body, HandlerResult, Headers, Request, Response, SharedHeaders};
use plugin::{
    Handler, HandlerKind, HandlerPlan, HeaderName, MaybeFuture, WorkerContext, variables,
};

pub(super) const KIND: HandlerKind = HandlerKind { name: "respond", schema: Respond::schema, read };

/// Responds with a fixed text: a health page, a maintenance notice, or a mock of a backend.
///
/// `handler: { respond: { body: "pong" } }`
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct Respond {
    /// The status.
    #[setting(default = 200, range = 200..=599)]
    status: u16,
    /// Header fields; values may hold variables.
    #[setting(example = { "content-type": "text/plain" })]
    headers: Option<Named<Template>>,
    /// The content.
    #[setting(example = "pong")]
    body: Option<String>,
    /// A file whose content is the body; it is read together with the configuration.
    file: Option<FilePath>,
    /// Generates a body of this size instead: for mocks.
    #[setting(range = "0B"..="64MiB", example = "2KiB")]
    body_size: Option<Size>,
    /// Waits before it responds: for mocks.
    #[setting(example = "20ms")]
    delay: Option<Duration>,
}

fn check(respond: &Respond, node: &Node, reader: &mut Reader<'_>) {
    let sources = [respond.body.is_some(), respond.file.is_some(), respond.body_size.is_some()];
    if sources.iter().filter(|given| **given).count() > 1 {
        reader.error(node.span, "only one of `body`, `file` and `body_size` can be the content");
    }
    for (name, _) in respond.headers.iter().flat_map(|headers| &headers.entries) {
        if let Err(error) = name.value.parse::<HeaderName>() {
            reader.error(name.span, format!("\"{}\" {error}", name.value));
        }
    }
}

/// The frozen form.
struct RespondPlan {
    status: u16,
    headers: Vec<(HeaderName, Template)>,
    body: Bytes,
    delay: Option<Span>,
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn HandlerPlan>> {
    let settings = Respond::read(node, reader)?;
    let body = if let Some(path) = &settings.file {
        match std::fs::read(path.as_ref()) {
            Ok(content) => Bytes::from(content),
            Err(error) => {
                reader.error(node.span, format!("cannot read {}: {error}", path));
                return None;
            }
        }
    } else if let Some(size) = settings.body_size {
        made_up(size.bytes())
    } else {
        Bytes::from(settings.body.unwrap_or_default())
    };
    let headers = settings.headers.map(|headers| headers.entries).unwrap_or_default();
    let headers = headers
        .into_iter()
        .filter_map(|(name, value)| Some((name.value.parse().ok()?, value)))
        .collect();
    let delay = settings.delay.map(|delay| delay.get());
    Some(Arc::new(RespondPlan { status: settings.status, headers, body, delay }))
}

/// Text of a given size, in lines, so that it can be looked at.
fn made_up(size: u64) -> Bytes {
    const LINE: &[u8] = b"tidegate makes up this body to stand in for a backend.\n";
    let size = usize::try_from(size).unwrap_or(usize::MAX);
    let mut text = LINE.repeat(size.div_ceil(LINE.len()));
    text.truncate(size);
    text.into()
}

impl HandlerPlan for RespondPlan {
    fn name(&self) -> &'static str {
        "respond"
    }

    fn build(&self, _: &WorkerContext) -> Rc<dyn Handler> {
        let mut fixed = Headers::new();
        let mut varying = Vec::new();
        for (name, value) in &self.headers {
            match value.as_literal() {
                Some(text) => fixed.append(name, text),
                None => varying.push((name.clone(), value.clone())),
            }
        }
        if !self.body.is_empty() && !self.headers.iter().any(|(n, _)| n.as_str() == "content-type")
        {
            fixed.append(wire::Known::ContentType, "text/plain; charset=utf-8");
        }
        Rc::new(RespondHandler {
            status: self.status,
            fixed: SharedHeaders::from(&fixed),
            varying,
            body: self.body.clone(),
            kept: (self.body.len() <= Body::COPIED_BYTES_MAX).then(|| Rc::from(&*self.body)),
            delay: self.delay,
        })
    }

    fn describe(&self) -> String {
        format!("status {}, {} bytes", self.status, self.body.len())
    }
}

struct RespondHandler {
    status: u16,
    /// Thousands of routes may have one each.
    fixed: SharedHeaders,
    varying: Vec<(HeaderName, Template)>,
    body: Bytes,
    /// The same, where it is so short that it is copied behind the head.
    kept: Option<Rc<[u8]>>,
    delay: Option<Span>,
}

impl RespondHandler {
    fn response(&self, request: &Request) -> Response {
        let mut headers = self.fixed.headers();
        for (name, value) in &self.varying {
            headers.append(name, variables::fill(value, request));
        }
        let body = match &self.kept {
            Some(kept) => Body::Kept(kept.clone()),
            None => Body::from(self.body.clone()),
        };
        Response { status: self.status, headers, body, ..Response::default() }
    }
}

impl Handler for RespondHandler {
    fn name(&self) -> &'static str {
        "respond"
    }

    fn is_instant(&self) -> bool {
        self.delay.is_none()
    }

    fn reads_fields(&self) -> bool {
        !self.varying.is_empty()
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        let Some(delay) = self.delay else { return Ok(self.response(request)).into() };
        MaybeFuture::of(async move {
            net::timer::sleep(delay).await;
            Ok(self.response(request))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_declaration_is_sound() {
        settings::verify::<Respond>().unwrap();
    }

    #[test]
    fn only_one_content_is_possible() {
        let node = settings::node!({ "body": "a", "body_size": "1KiB" });
        let errors = settings::read::<Respond>(&node).unwrap_err();
        assert!(errors.contains("only one of"), "{errors}");
    }

    #[test]
    fn a_made_up_body_is_bounded() {
        let errors = settings::read::<Respond>(&settings::node!({ "body_size": "65MiB" }));
        assert!(errors.unwrap_err().contains("64MiB"));
    }

    #[test]
    fn a_made_up_body_has_its_size() {
        assert_eq!(made_up(2048).len(), 2048);
        assert_eq!(made_up(0).len(), 0);
    }
}
