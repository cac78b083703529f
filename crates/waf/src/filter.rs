//! The filter: settings, rules of the configuration, and what happens at the threshold.

use std::rc::Rc;
use std::sync::Arc;

use message::{Body, Fault, FaultKind, Request};
use plugin::{Condition, Filter, FilterKind, FilterPlan, MaybeFuture, Stage, Step, WorkerContext};
use settings::{Node, OneOrMany, Reader, Setting, Size};
use telemetry::log::Level;
use telemetry::{CachePadded, Counter};

use crate::body::peek;
use crate::inputs::{BodyCoding, body_kind, inspect_body, inspect_head};
use crate::rules::{CATEGORIES, RULES};
use crate::score::{Exclusion, Scanner, WafVerdict, compile_rules};

pub const KIND: FilterKind = FilterKind { name: "waf", schema: Waf::schema, read };

/// Rejects requests that look like attacks (a small web application firewall).
///
/// Each built-in rule that matches the path, a parameter, a cookie, some headers or the body adds
/// its score; at `threshold` the request gets 403. Begin with `log_only: true`, and exclude what
/// your application needs. It is a second line of defence: it knows common attacks, not all of
/// them, and repairs no application.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
struct Waf {
    /// Counts and logs what would be rejected, and forwards it.
    #[setting(default = false)]
    log_only: bool,
    /// The score at which a request is rejected. A clear attack scores 5.
    #[setting(default = 5, range = 1..=100)]
    threshold: u32,
    /// Inspects this much of bodies that are forms (also multipart), JSON, XML or text, or have no
    /// type; `0B` inspects none. The rest of a body passes. Bodies in gzip, br, zstd or deflate are
    /// decoded for it; in another coding, damaged, with two types, or in a character encoding that
    /// does not contain ASCII or is declared twice, they are rejected.
    #[setting(default = "64KiB", range = "0B"..="1MiB")]
    body: Size,
    /// Built-in rules that do not count, everywhere or for single parameters.
    #[setting(default = [], example = [{ "rules": ["sql-select"], "parameters": ["comment"] }])]
    exclude: Vec<Exclude>,
    /// Your own rules: the first whose condition holds decides, before the built-in rules.
    #[setting(default = [], example = [{ "when": { "header": "x-debug" }, "action": "reject" }])]
    rules: Vec<OwnRule>,
    /// Applies the built-in rules.
    #[setting(default = true)]
    builtin: bool,
}

/// Built-in rules to leave out.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check_exclude)]
struct Exclude {
    /// Names of rules, or of a category: `sql`, `xss`, `traversal`, `command`, `scanner`,
    /// `protocol`.
    #[setting(example = ["sql-select", "xss"])]
    rules: OneOrMany<String>,
    /// Only for parameters, cookies or headers of these names; those of headers in any case.
    #[setting(default = [], example = ["comment"])]
    parameters: Vec<String>,
    /// Only for requests that fulfil this condition.
    when: Option<Condition>,
}

/// A rule of the configuration.
#[derive(Clone, Debug, PartialEq, Setting)]
struct OwnRule {
    /// Which requests.
    #[setting(example = { "header": "x-debug" })]
    when: Condition,
    /// What happens to them.
    action: Action,
    /// The status of the response to a rejected request.
    #[setting(default = 403, range = 400..=599)]
    status: u16,
}

/// What a rule does.
#[derive(Clone, Debug, PartialEq, Setting)]
enum Action {
    /// The request passes without inspection.
    Allow,
    /// The request is rejected.
    Reject,
}

/// The rules that a name stands for.
fn rules_named(name: &str) -> Vec<usize> {
    let is_named = |at: &usize| RULES[*at].name == name || RULES[*at].category() == name;
    (0..RULES.len()).filter(is_named).collect()
}

fn check_exclude(exclude: &Exclude, node: &Node, reader: &mut Reader<'_>) {
    for name in &exclude.rules.0 {
        if rules_named(name).is_empty() {
            let known = RULES.iter().map(|rule| rule.name).chain(CATEGORIES);
            let nearest = settings::nearest(name, known);
            let error = reader.error(node.span, format!("there is no rule {name:?}"));
            if let Some(nearest) = nearest {
                error.help(format!("did you mean {nearest:?}?"));
            }
        }
    }
}

fn check(settings: &Waf, node: &Node, reader: &mut Reader<'_>) {
    if !settings.builtin && settings.rules.is_empty() {
        reader.error(node.span, "this rejects nothing: give rules, or builtin: true");
    }
    if !settings.builtin {
        reader.no_effect(node, &["threshold", "body", "exclude"], "builtin is false");
    }
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn FilterPlan>> {
    let settings = Waf::read(node, reader)?;
    let exclusions = settings.exclude.iter().map(|exclude| {
        Arc::new(Exclusion {
            rules: exclude.rules.0.iter().flat_map(|name| rules_named(name)).collect(),
            parameters: exclude.parameters.clone(),
        })
    });
    let exclusions = exclusions.collect();
    // Now, not for the first request.
    compile_rules();
    Some(Arc::new(WafPlan(Arc::new(Prepared { settings, exclusions }))))
}

struct Prepared {
    settings: Waf,
    /// In the order of `exclude`.
    exclusions: Vec<Arc<Exclusion>>,
}

struct WafPlan(Arc<Prepared>);

impl FilterPlan for WafPlan {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn build(&self, worker: &WorkerContext) -> Stage {
        let counter = |reason| worker.policy_rejections(KIND.name, reason);
        Stage::Filter(Rc::new(WafFilter {
            plan: self.0.clone(),
            rejected: CATEGORIES.map(counter),
            logged: counter("logged"),
        }))
    }

    fn needs_authentication(&self) -> bool {
        let Waf { rules, exclude, .. } = &self.0.settings;
        let excluded = exclude.iter().filter_map(|exclude| exclude.when.as_ref());
        rules.iter().map(|rule| &rule.when).chain(excluded).any(Condition::needs_authentication)
    }

    fn describe(&self) -> String {
        let Waf { log_only, threshold, rules, .. } = &self.0.settings;
        let mode = if *log_only { ", log only" } else { "" };
        format!("threshold {threshold}, {} rules of its own{mode}", rules.len())
    }
}

struct WafFilter {
    plan: Arc<Prepared>,
    /// By [`CATEGORIES`].
    rejected: [Arc<CachePadded<Counter>>; CATEGORIES.len()],
    logged: Arc<CachePadded<Counter>>,
}

impl WafFilter {
    fn scanner(&self, request: &Request) -> Scanner {
        let all = self.plan.settings.exclude.iter().zip(&self.plan.exclusions);
        let applies = |exclude: &Exclude| exclude.when.as_ref().is_none_or(|c| c.holds(request));
        let applying = all.filter(|(exclude, _)| applies(exclude));
        Scanner::with_exclusions(applying.map(|(_, prepared)| prepared.clone()).collect())
    }

    fn decide(&self, verdict: &WafVerdict, request: &Request) -> Step {
        if verdict.score < self.plan.settings.threshold {
            return Step::Continue;
        }
        let names: Vec<&str> = verdict.matched.iter().map(|at| RULES[*at].name).collect();
        let heaviest = verdict.matched.iter().max_by_key(|at| RULES[**at].score);
        let category = heaviest.map_or("protocol", |at| RULES[*at].category());
        self.reject(category, 403, verdict.score, &names.join(","), request)
    }

    fn reject(
        &self,
        category: &str,
        status: u16,
        score: u32,
        rules: &str,
        request: &Request,
    ) -> Step {
        let log_only = self.plan.settings.log_only;
        telemetry::event_limited!(
            10,
            Level::Warn,
            "request looks like an attack",
            route = request.route.as_ref().map_or("", |route| &*route.name),
            client = request.client_ip,
            rules = rules,
            score = score,
            action = if log_only { "forwarding it" } else { "rejecting it" },
            trace_id = request.trace_id()
        );
        if log_only {
            self.logged.add(1);
            return Step::Continue;
        }
        if let Some(at) = CATEGORIES.iter().position(|known| *known == category) {
            self.rejected[at].add(1);
        }
        let detail = format!("rejected by the filter waf: rules={rules} score={score}");
        Step::Fail(Fault::new(FaultKind::Forbidden, detail).with_status(status))
    }

    /// Rejects a body that an application might read and this filter cannot, or reads differently.
    fn unreadable(&self, why: &str, request: &Request) -> Step {
        self.reject("protocol", 403, self.plan.settings.threshold, why, request)
    }

    async fn inspect_body(&self, verdict: WafVerdict, request: &mut Request) -> Step {
        let kind = match body_kind(request) {
            Ok(Some(kind)) => kind,
            Ok(None) => return Step::Continue,
            Err(why) => return self.unreadable(why, request),
        };
        let Some(coding) = BodyCoding::of(request) else {
            return self.unreadable("content-coding", request);
        };
        // At most 1 MiB.
        let max = self.plan.settings.body.bytes() as usize;
        let (content, body) = peek(std::mem::take(&mut request.body), max).await;
        request.body = body;
        let decoded_max = if coding == BodyCoding::Identity { content.len() } else { max };
        let mut scanner = self.scanner(request);
        scanner.verdict = verdict;
        let inspect = move || {
            let content = coding.decode(content, max).ok_or("content-coding")?;
            inspect_body(&kind, &content, &mut scanner)?;
            Ok(scanner.finish())
        };
        let verdict = match decoded_max > ON_WORKER_BYTES {
            true => net::blocking(inspect).await.unwrap_or(Err("content-coding")),
            false => inspect(),
        };
        match verdict {
            Ok(verdict) => self.decide(&verdict, request),
            Err(why) => self.unreadable(why, request),
        }
    }
}

/// More than this is decoded and inspected on the blocking pool, so that it does not delay the
/// worker.
const ON_WORKER_BYTES: usize = 64 * 1024;

/// Parameters of a query that are looked at; more are an attack by themselves.
const PARAMETERS_MAX: usize = 512;

/// True if the query has more parameters than are inspected.
fn has_too_many_parameters(request: &Request) -> bool {
    let query = request.target.query().unwrap_or_default();
    query.len() >= PARAMETERS_MAX
        && query.iter().filter(|byte| **byte == b'&').count() >= PARAMETERS_MAX
}

impl Filter for WafFilter {
    fn name(&self) -> &'static str {
        KIND.name
    }

    fn on_request<'a>(&'a self, request: &'a mut Request) -> MaybeFuture<'a, Step> {
        let Waf { rules, builtin, body, .. } = &self.plan.settings;
        match rules.iter().find(|rule| rule.when.holds(request)) {
            Some(OwnRule { action: Action::Allow, .. }) => return Step::Continue.into(),
            Some(rule) => {
                let step = self.reject("rule", rule.status, 0, "own", request);
                if let Step::Fail(_) = step {
                    return step.into();
                }
            }
            None => {}
        }
        if !builtin {
            return Step::Continue.into();
        }
        if has_too_many_parameters(request)
            && let step @ Step::Fail(_) =
                self.reject("protocol", 403, self.plan.settings.threshold, "parameters", request)
        {
            return step.into();
        }
        let mut scanner = self.scanner(request);
        inspect_head(request, &mut scanner);
        let verdict = scanner.finish();
        if verdict.score >= self.plan.settings.threshold {
            return self.decide(&verdict, request).into();
        }
        if body.bytes() == 0 || matches!(request.body, Body::Empty) {
            return Step::Continue.into();
        }
        MaybeFuture::of(self.inspect_body(verdict, request))
    }
}

#[cfg(test)]
mod tests;
