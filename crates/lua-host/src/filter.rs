//! `filters: [{ lua: FILE }]`: functions of Lua that see requests and answers go by.
//!
//! `request(request, response)` may change the path and the fields of a request, or answer it;
//! `response(request, response)` may change an answer; `body(piece)` gets each piece of the
//! content, then nil, and returns what is sent instead.

use std::rc::Rc;
use std::sync::Arc;

use exchange::{
    Fault, Filter, FilterKind, FilterPlan, MaybeFuture, Mentions, Request, Response, Stage, Step,
    WorkerContext,
};
use lua_vm::calls::{self, CallProgress, FunctionRef, RunningVm, Ticket};
use mlua::{Error, Function, Result, Value};
use settings::{Node, Reader, Setting};

use super::filter_body::Filtered;
use super::generation::Generation;
use super::loaded::Loaded;
use super::settings as written;
use super::settings::Source;

/// The kind, for the table of filters.
pub const FILTER: FilterKind = FilterKind { name: "lua", schema: written::Filter::schema, read };

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    let settings = written::Filter::read(node, reader)?;
    let span = node.get("file").unwrap_or(node).span;
    let budget = settings.budget.instructions();
    let source = Source::read(span, &settings.file, settings.memory, budget, reader)?;
    Some(Arc::new(Plan(source)))
}

struct Plan(Arc<Source>);

impl FilterPlan for Plan {
    fn name(&self) -> &'static str {
        FILTER.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        let generation = Generation::current(worker);
        Stage::Filter(Rc::new(LuaFilter(Loaded::new(self.0.clone(), generation, functions))))
    }

    fn describe(&self) -> String {
        self.0.path.display().to_string()
    }

    fn mentions(&self) -> Option<&Mentions> {
        Some(&self.0.mentions)
    }
}

/// What a filter file returned.
struct Functions {
    running: Rc<RunningVm>,
    request: Option<FunctionRef>,
    response: Option<FunctionRef>,
    body: Option<Function>,
}

fn functions(running: &Rc<RunningVm>, value: Value) -> Result<Functions> {
    let Value::Table(table) = value else {
        let found = value.type_name();
        let why = format!("a filter file returns {{ request, response, body }}, not a {found}");
        return Err(Error::runtime(why));
    };
    let kept = |name: &str| -> Result<Option<FunctionRef>> {
        let function: Option<Function> = table.get(name)?;
        function.map(|function| FunctionRef::new(running, function)).transpose()
    };
    Ok(Functions {
        running: running.clone(),
        request: kept("request")?,
        response: kept("response")?,
        body: table.get("body")?,
    })
}

struct LuaFilter(Loaded<Functions>);

impl LuaFilter {
    fn functions(&self) -> std::result::Result<Rc<Functions>, Fault> {
        self.0.get().ok_or_else(|| Fault::internal("the Lua filter could not be loaded"))
    }

    /// Puts the body's function in front of the content.
    fn filter_body(&self, functions: &Functions, response: &mut Response) {
        if let Some(body) = &functions.body
            && !response.body.is_empty()
        {
            Filtered::put(&functions.running, body, self.0.source.budget, response);
        }
    }
}

/// What a request's function has said, once it has ended.
fn asked(ticket: &Ticket) -> Step {
    if !ticket.has_response() {
        return Step::Continue;
    }
    match ticket.take_response() {
        Ok(response) => Step::Respond(response),
        Err(fault) => Step::Fail(fault),
    }
}

/// Puts the answer back that a response's function has had in its hands.
fn answered(ticket: &Ticket, response: &mut Response) -> Step {
    match ticket.take_response() {
        Ok(changed) => {
            *response = changed;
            Step::Continue
        }
        Err(fault) => Step::Fail(fault),
    }
}

impl Filter for LuaFilter {
    fn name(&self) -> &'static str {
        FILTER.name
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        let functions = match self.functions() {
            Ok(functions) => functions,
            Err(fault) => return Step::Fail(fault).into(),
        };
        let Some(kept) = &functions.request else { return Step::Continue.into() };
        let (running, budget) = (kept.running(), self.0.source.budget);
        let ticket = calls::begin(kept, request, Response::new(200), budget);
        running.check_memory();
        match ticket.progress() {
            CallProgress::Ended => asked(&ticket).into(),
            CallProgress::Failed => Step::Fail(calls::failed()).into(),
            CallProgress::Responding | CallProgress::Waiting => {
                ticket.keep(request);
                MaybeFuture::of(async move {
                    ticket.wait().await;
                    match ticket.progress() {
                        CallProgress::Ended => {
                            ticket.give_back(request);
                            asked(&ticket)
                        }
                        _ => match ticket.into_outcome(request) {
                            Ok(response) => Step::Respond(response),
                            Err(fault) => Step::Fail(fault),
                        },
                    }
                })
            }
        }
    }

    fn on_response<'a>(
        &'a self,
        request: &'a mut Request,
        response: &'a mut Response,
    ) -> MaybeFuture<'a, Step> {
        let functions = match self.functions() {
            Ok(functions) => functions,
            Err(fault) => return Step::Fail(fault).into(),
        };
        let Some(kept) = &functions.response else {
            self.filter_body(&functions, response);
            return Step::Continue.into();
        };
        let (running, budget) = (kept.running(), self.0.source.budget);
        let given = std::mem::take(response);
        let ticket = calls::begin(kept, request, given, budget);
        running.check_memory();
        match ticket.progress() {
            CallProgress::Ended => {
                let step = answered(&ticket, response);
                self.filter_body(&functions, response);
                step.into()
            }
            CallProgress::Failed => Step::Fail(calls::failed()).into(),
            CallProgress::Responding | CallProgress::Waiting => {
                ticket.keep(request);
                MaybeFuture::of(async move {
                    ticket.wait().await;
                    match ticket.into_outcome(request) {
                        Ok(changed) => *response = changed,
                        Err(fault) => return Step::Fail(fault),
                    }
                    self.filter_body(&functions, response);
                    Step::Continue
                })
            }
        }
    }
}
