//! Dispatches a request to its endpoint and checks access.

use crate::access::{Access, Caller};
use crate::audit::ChangeRecord;
use crate::control::{Control, Refusal};
use crate::endpoints::{self, Action, Endpoint};
use crate::messages::{ApiResult, json_response};
use crate::problem::Problem;
use crate::{
    apps, caches, configuration, console, consumers, explain, health, health_history, live_log,
    log_level, login, lua_profile, lua_programs, nodes, prometheus, quotas, registrations, send,
    servers, summary, views,
};
use message::{HandlerResult, Request, Response};
use plugin::{Handler, MaybeFuture};
use serde_json::json;
use std::rc::Rc;
use telemetry::event;
use telemetry::log::Level;
use wire::Known;

/// The admin API.
pub struct Admin {
    access: Access,
    control: Rc<dyn Control>,
}

impl Admin {
    pub fn new(access: Access, control: Rc<dyn Control>) -> Self {
        access.sessions.set_tokens(&access.tokens);
        Self { access, control }
    }

    /// The requested endpoint, the name in the path, and the client.
    fn find<'r>(
        &self,
        request: &'r Request,
    ) -> Result<(&'static Endpoint, &'r str, Caller), Problem> {
        let path = request.target.path();
        let caller = self.access.check(endpoints::guard(&request.method, path), request)?;
        let (endpoint, name) = endpoints::find(&request.method, path, request.target.query())?;
        Ok((endpoint, name, caller))
    }

    /// Responds to actions that need neither a body nor a wait; `None` for others.
    fn respond_now(
        &self,
        action: Action,
        (name, caller): (&str, &Caller),
        request: &Request,
    ) -> Option<ApiResult> {
        let (control, query) = (&*self.control, request.target.query());
        Some(match action {
            Action::Console | Action::ConsoleFile if !self.access.console => Err(console::off()),
            Action::Console => Ok(console::page(request)),
            Action::ConsoleFile => console::file(name, request),
            Action::Session => Ok(login::show(caller)),
            Action::Logout => login::close(caller, request),
            Action::Summary => Ok(summary::of(control)),
            Action::Healthz => Ok(health::healthz()),
            Action::Readyz => Ok(health::readyz(&control.status(), request)),
            Action::Metrics if control.processes_metrics().is_some() => return None,
            Action::Metrics => Ok(metrics(control, request)),
            Action::Apps => Ok(apps::all(control)),
            Action::Status => Ok(views::status(&control.status())),
            Action::GetConfig => configuration::get(&self.access, caller, control, request),
            Action::ConfigSchema => Ok(configuration::schema()),
            Action::History => Ok(configuration::history(&control.history())),
            Action::Routes => Ok(views::routes(&control.routes(), &control.telemetry())),
            Action::Upstreams => Ok(views::upstreams(&control.upstreams())),
            Action::Log => live_log::follow(&self.control, (caller, &self.access.sessions), query),
            Action::LogLevel => Ok(log_level::get()),
            Action::RegisteredServers => registrations::all(control, name),
            Action::DeregisterServer => registrations::delete(control, name, query),
            Action::Streams => Ok(views::streams(control)),
            Action::Workers => Ok(views::workers(&control.workers(), &control.telemetry())),
            Action::Caches => Ok(caches::all(control)),
            Action::Cache => caches::one(control, name),
            Action::CacheEntries => caches::entries(control, name, query),
            Action::Lua => Ok(lua_programs::all(control)),
            Action::HealthHistory => health_history::all(control, name),
            Action::CacheExplain => caches::explain(control, name, request),
            Action::Consumers => consumers::all(control, query),
            Action::Consumer => consumers::one(control, name),
            Action::Quotas => Ok(quotas::all(control)),
            Action::Quota => quotas::one(control, name, query),
            Action::ResetQuota => quotas::reset(control, name, query),
            Action::Drain => Ok(self.drain()),
            Action::Reload if !endpoints::flag(query, "wait") => {
                control.request_reload();
                Ok(accepted("reload"))
            }
            Action::Reload
            | Action::Login
            | Action::CheckConfig
            | Action::PutConfig
            | Action::ChangeServer
            | Action::SetLogLevel
            | Action::PutConsumer
            | Action::DeleteConsumer
            | Action::RegisterServer
            | Action::Rollback
            | Action::Explain
            | Action::Send
            | Action::AppReload
            | Action::LuaProfile
            | Action::LuaRestart
            | Action::Nodes
            | Action::CacheTop
            | Action::CachePreview
            | Action::CachePurge => return None,
        })
    }

    async fn respond(
        &self,
        action: Action,
        (name, caller): (&str, &Caller),
        request: &mut Request,
    ) -> ApiResult {
        match action {
            Action::Login => login::open(&self.access, request).await,
            Action::CheckConfig => configuration::check(&*self.control, request).await,
            Action::Metrics => {
                let text = prometheus::all_metrics(&*self.control).await;
                Ok(prometheus::respond(text, request, &self.control.telemetry()))
            }
            Action::AppReload => apps::reload(&*self.control, name).await,
            Action::LuaProfile => lua_profile::record(&*self.control, request).await,
            Action::LuaRestart => lua_programs::restart(&*self.control).await,
            Action::Nodes => nodes::all(&*self.control, request.target.query()).await,
            Action::CacheTop => caches::top(&*self.control, name, request.target.query()).await,
            Action::CachePreview => caches::preview(&*self.control, name, request).await,
            Action::CachePurge => caches::purge(&*self.control, name, request).await,
            Action::RegisterServer => registrations::put(&*self.control, name, request).await,
            Action::PutConsumer => consumers::put(&*self.control, name, request).await,
            Action::DeleteConsumer => consumers::delete(&*self.control, name, request).await,
            Action::ChangeServer => servers::change(&*self.control, name, request).await,
            Action::SetLogLevel => log_level::set(request).await,
            Action::PutConfig => configuration::put(&*self.control, request).await,
            Action::Rollback => configuration::rollback(&*self.control, request).await,
            Action::Explain => explain::answer(&*self.control, request).await,
            Action::Send => send::answer(&*self.control, request).await,
            Action::Reload => configuration::applied(self.control.reload().await),
            other => self
                .respond_now(other, (name, caller), request)
                .unwrap_or_else(|| Err(Problem::new(500, "this endpoint has no handler"))),
        }
    }

    fn drain(&self) -> Response {
        event!(Level::Info, "drain requested", by = "admin API");
        self.control.drain();
        accepted("drain")
    }
}

/// The metrics of a server without applications.
fn metrics(control: &dyn Control, request: &Request) -> Response {
    prometheus::respond(prometheus::of(control), request, &control.telemetry())
}

/// A name of the path, in which slashes and percent signs are still escaped.
fn decoded(name: &str) -> String {
    let bytes = wire::target::unescape_all(name.as_bytes()).ok();
    let text = bytes.and_then(|bytes| String::from_utf8(bytes.into_owned()).ok());
    text.unwrap_or_else(|| name.to_owned())
}

fn accepted(what: &str) -> Response {
    json_response(202, &json!({ "accepted": what }))
}

/// Keeps caches from storing responses of the API, and browsers from guessing their types.
fn finish(result: ApiResult, change: Option<ChangeRecord>) -> HandlerResult {
    let mut response = result.unwrap_or_else(Response::from);
    if let Some(change) = change {
        change.finish(response.status);
    }
    if !response.headers.contains(Known::CacheControl) {
        response.headers.append(Known::CacheControl, "no-store");
    }
    response.headers.append("x-content-type-options", "nosniff");
    Ok(response)
}

impl Handler for Admin {
    fn name(&self) -> &'static str {
        "admin"
    }

    fn handle<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        let (endpoint, name, caller) = match self.find(request) {
            Ok((endpoint, name, caller)) => (endpoint, decoded(name), caller),
            Err(problem) => return finish(Err(problem), None).into(),
        };
        let change = ChangeRecord::of(endpoint, &caller, request);
        match self.respond_now(endpoint.action, (name.as_str(), &caller), request) {
            Some(result) => finish(result, change).into(),
            None => MaybeFuture::of(async move {
                let result = self.respond(endpoint.action, (name.as_str(), &caller), request).await;
                finish(result, change)
            }),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Invalid(report) => configuration::errors(&report),
            Refusal::Stale { current } => Problem::new(
                412,
                "the configuration has changed since the version that If-Match names",
            )
            .advice("read it again with GET /v1/config and change that")
            .member("version", json!(current))
            .field(Known::Etag, format!("\"{current}\"")),
            Refusal::ReadOnly(why) => Problem::new(409, why),
            Refusal::NoVersion => Problem::new(404, "there is no such version in the history")
                .advice("GET /v1/config/history lists the versions"),
            Refusal::Busy => Problem::new(503, "another change is being put into use")
                .field(Known::RetryAfter, "1"),
            Refusal::Unable(why) => Problem::new(409, why)
                .advice("nothing has changed; the previous configuration still serves"),
            Refusal::Failed(why) => {
                Problem::new(500, why).advice("the previous configuration still serves")
            }
        }
    }
}

#[cfg(test)]
mod tests;
