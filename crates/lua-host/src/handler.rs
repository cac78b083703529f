//! `handler: { lua: FILE }`: a Lua function as the handler of a route.

use std::rc::Rc;
use std::sync::Arc;

use lua_vm::calls::{self, CallProgress, FunctionRef, RunningVm};
use message::{Fault, HandlerResult, Request, Response};
use mlua::{Error, Result, Value};
use plugin::{Handler, HandlerKind, HandlerPlan, MaybeFuture, Mentions, WorkerContext};
use settings::{Node, Reader, Setting};

use super::generation::Generation;
use super::loaded_file::LoadedFile;
use super::settings as written;
use super::settings::ScriptSource;

/// The kind, for the table of handlers.
pub const HANDLER: HandlerKind =
    HandlerKind { name: "lua", schema: written::Handler::schema, read };

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn HandlerPlan>> {
    let settings = written::Handler::read(node, reader)?;
    let span = node.get("file").unwrap_or(node).span;
    let budget = settings.budget.instructions();
    let source = ScriptSource::read(span, &settings.file, settings.memory, budget, reader)?;
    Some(Arc::new(LuaHandlerPlan(source)))
}

struct LuaHandlerPlan(Arc<ScriptSource>);

impl HandlerPlan for LuaHandlerPlan {
    fn name(&self) -> &'static str {
        HANDLER.name
    }

    fn build(&self, worker: &WorkerContext) -> Rc<dyn Handler> {
        let generation = Generation::current(worker);
        Rc::new(LuaHandler(LoadedFile::new(self.0.clone(), generation, function)))
    }

    fn describe(&self) -> String {
        self.0.path.display().to_string()
    }

    fn mentions(&self) -> Option<&Mentions> {
        Some(&self.0.mentions)
    }
}

fn function(running: &Rc<RunningVm>, value: Value) -> Result<FunctionRef> {
    match value {
        Value::Function(function) => FunctionRef::new(running, function),
        other => {
            let found = other.type_name();
            Err(Error::runtime(format!("a handler file returns a function, not a {found}")))
        }
    }
}

struct LuaHandler(Rc<LoadedFile<FunctionRef>>);

impl Handler for LuaHandler {
    fn name(&self) -> &'static str {
        HANDLER.name
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        let Some(kept) = self.0.get() else {
            return Err(Fault::internal("the Lua handler could not be loaded")).into();
        };
        let (running, budget) = (kept.running(), self.0.source.budget);
        let ticket = calls::begin(&kept, request, Response::new(200), budget);
        running.check_memory();
        match ticket.progress() {
            CallProgress::Ended => ticket.take_response().into(),
            CallProgress::Failed => Err(calls::failed()).into(),
            CallProgress::Responding | CallProgress::Waiting => {
                ticket.keep(request);
                MaybeFuture::of(async move {
                    ticket.wait().await;
                    ticket.into_outcome(request)
                })
            }
        }
    }
}
