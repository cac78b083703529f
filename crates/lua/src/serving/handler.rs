//! `handler: { lua: FILE }`: a route that ends in a function of Lua.

use std::rc::Rc;
use std::sync::Arc;

use exchange::{
    Fault, Handler, HandlerKind, HandlerPlan, LocalFuture, Mentions, Outcome, Request, Response,
    WorkerContext,
};
use mlua::{Error, Result, Value};
use settings::{Node, Reader, Setting};

use super::generation::{Generation, Running};
use super::loaded::{Kept, Loaded};
use super::settings as written;
use super::settings::Source;
use super::waiting::{self, Stand};
use super::{attached, call};

/// The kind, for the table of handlers.
pub const HANDLER: HandlerKind =
    HandlerKind { name: "lua", schema: written::Handler::schema, read };

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn HandlerPlan>> {
    let settings = written::Handler::read(node, reader)?;
    let span = node.get("file").unwrap_or(node).span;
    let budget = settings.budget.instructions();
    let source = Source::read(span, &settings.file, settings.memory, budget, reader)?;
    Some(Arc::new(Plan(source)))
}

struct Plan(Arc<Source>);

impl HandlerPlan for Plan {
    fn name(&self) -> &'static str {
        HANDLER.name
    }

    fn build(&self, worker: &WorkerContext) -> Rc<dyn Handler> {
        let generation = Generation::current(worker);
        Rc::new(LuaHandler(Loaded::new(self.0.clone(), generation, function)))
    }

    fn describe(&self) -> String {
        self.0.path.display().to_string()
    }

    fn mentions(&self) -> Option<&Mentions> {
        Some(&self.0.mentions)
    }
}

fn function(running: &Rc<Running>, value: Value) -> Result<Kept> {
    match value {
        Value::Function(function) => Kept::new(running, function),
        other => {
            let found = other.type_name();
            Err(Error::runtime(format!("a handler file returns a function, not a {found}")))
        }
    }
}

struct LuaHandler(Loaded<Kept>);

impl Handler for LuaHandler {
    fn name(&self) -> &'static str {
        HANDLER.name
    }

    fn answer(&self, request: &mut Request) -> Option<Outcome> {
        let Some(kept) = self.0.get() else {
            return Some(Err(Fault::internal("the Lua handler could not be loaded")));
        };
        let (running, budget) = (&kept.running, self.0.source.budget);
        let ticket = call::begin(running, kept.reference, request, Response::new(200), budget);
        running.weigh();
        match waiting::stand(&ticket) {
            Stand::Ended => Some(ticket.with(|call| call.reply())),
            Stand::Failed => Some(Err(waiting::failed())),
            Stand::Answers | Stand::Waits => {
                attached::park(request, ticket);
                None
            }
        }
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> LocalFuture<'a, Outcome> {
        Box::pin(async move {
            let ticket = waiting::parked(request)?;
            waiting::wait(&ticket).await;
            waiting::answer(ticket, request)
        })
    }
}
