//! `filters: [{ lua: FILE }]`: Lua functions for requests and responses.
//!
//! `request(request, response)` may change the path and the fields of a request, or respond to it;
//! `response(request, response)` may change a response; `body(piece)` gets each piece of the
//! content, then nil, and returns what to send instead.

use std::rc::Rc;
use std::sync::Arc;

use lua_vm::calls::{self, CallHandle, CallProgress, FunctionRef, RunningVm};
use message::{Fault, Request, Response};
use mlua::{Error, Function, Result, Value};
use plugin::{Filter, FilterKind, FilterPlan, MaybeFuture, Mentions, Stage, Step, WorkerContext};
use settings::{Node, Reader, Setting};

use super::filter_body::FilteredBody;
use super::generation::Generation;
use super::loaded_file::LoadedFile;
use super::settings as written;
use super::settings::ScriptSource;

/// The kind, for the table of filters.
pub const FILTER: FilterKind = FilterKind { name: "lua", schema: written::Filter::schema, read };

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    let settings = written::Filter::read(node, reader)?;
    let span = node.get("file").unwrap_or(node).span;
    let budget = settings.budget.instructions();
    let source = ScriptSource::read(span, &settings.file, settings.memory, budget, reader)?;
    Some(Arc::new(LuaFilterPlan(source)))
}

struct LuaFilterPlan(Arc<ScriptSource>);

impl FilterPlan for LuaFilterPlan {
    fn name(&self) -> &'static str {
        FILTER.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        let generation = Generation::current(worker);
        Stage::Filter(Rc::new(LuaFilter(LoadedFile::new(self.0.clone(), generation, functions))))
    }

    fn describe(&self) -> String {
        self.0.path.display().to_string()
    }

    fn mentions(&self) -> Option<&Mentions> {
        Some(&self.0.mentions)
    }
}

/// The functions that a filter file returned.
struct FilterFunctions {
    running: Rc<RunningVm>,
    request: Option<FunctionRef>,
    response: Option<FunctionRef>,
    body: Option<Function>,
}

fn functions(running: &Rc<RunningVm>, value: Value) -> Result<FilterFunctions> {
    let Value::Table(table) = value else {
        let found = value.type_name();
        let why = format!("a filter file returns {{ request, response, body }}, not a {found}");
        return Err(Error::runtime(why));
    };
    let kept = |name: &str| -> Result<Option<FunctionRef>> {
        let function: Option<Function> = table.get(name)?;
        function.map(|function| FunctionRef::new(running, function)).transpose()
    };
    Ok(FilterFunctions {
        running: running.clone(),
        request: kept("request")?,
        response: kept("response")?,
        body: table.get("body")?,
    })
}

struct LuaFilter(Rc<LoadedFile<FilterFunctions>>);

impl LuaFilter {
    fn functions(&self) -> std::result::Result<Rc<FilterFunctions>, Fault> {
        self.0.get().ok_or_else(|| Fault::internal("the Lua filter could not be loaded"))
    }

    /// Sends the content through the function `body`.
    fn filter_body(&self, functions: &FilterFunctions, response: &mut Response) {
        if let Some(body) = &functions.body
            && !response.body.is_empty()
        {
            FilteredBody::put(&functions.running, body, self.0.source.budget, response);
        }
    }
}

/// The step after the function `request` has ended.
fn request_step(ticket: &CallHandle) -> Step {
    if !ticket.has_response() {
        return Step::Continue;
    }
    match ticket.take_response() {
        Ok(response) => Step::Respond(response),
        Err(fault) => Step::Fail(fault),
    }
}

/// Takes the response back after the function `response` has ended.
fn response_step(ticket: &CallHandle, response: &mut Response) -> Step {
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
            CallProgress::Ended => request_step(&ticket).into(),
            CallProgress::Failed => Step::Fail(calls::failed()).into(),
            CallProgress::Responding | CallProgress::Waiting => {
                ticket.keep(request);
                MaybeFuture::of(async move {
                    ticket.wait().await;
                    match ticket.progress() {
                        CallProgress::Ended => {
                            ticket.give_back(request);
                            request_step(&ticket)
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
                let step = response_step(&ticket, response);
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
