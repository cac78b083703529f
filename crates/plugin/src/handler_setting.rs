//! A handler among the settings of a filter: a variant of `split`, a fallback, a mirror's target.
//!
//! A filter does not know which handlers exist. It reads the entry as it is written; `config`,
//! which knows every kind, then reads the handler itself ([`crate::FilterPlan::handlers`]).

use std::fmt;
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use message::{Fault, HandlerResult, Request};
use settings::{Node, Reader, Schema, SchemaBuilder, Setting, Spanned, tagged};

use crate::{Handler, HandlerPlan, MaybeFuture, WorkerContext};

/// A handler as a filter's settings hold it.
#[derive(Clone)]
pub struct HandlerSetting {
    /// The kind of handler.
    pub name: Spanned<String>,
    /// The settings under the name.
    pub settings: Node,
    /// Shared by the copies of the settings.
    plan: Arc<OnceLock<Arc<dyn HandlerPlan>>>,
}

impl HandlerSetting {
    /// The handler `upstream` of an upstream.
    pub fn of_upstream(name: &Spanned<String>) -> HandlerSetting {
        let settings = Node { span: name.span, ..Node::quoted(name.value.as_str()) };
        let name = Spanned::new("upstream".to_owned(), name.span);
        HandlerSetting { name, settings, plan: Arc::default() }
    }

    /// Sets the plan, once it has been read.
    pub fn resolve(&self, plan: Arc<dyn HandlerPlan>) {
        let _ = self.plan.set(plan);
    }

    /// Returns the plan; `None` until the configuration was read, or if it has an error.
    pub fn plan(&self) -> Option<&Arc<dyn HandlerPlan>> {
        self.plan.get()
    }

    /// Builds a worker's handler.
    pub fn build(&self, worker: &WorkerContext) -> Rc<dyn Handler> {
        self.plan().map_or_else(|| Rc::new(Unresolved) as _, |plan| plan.build(worker))
    }
}

/// Stands for a handler that `config` has not read, which no plan in use has.
struct Unresolved;

impl Handler for Unresolved {
    fn name(&self) -> &'static str {
        "unresolved"
    }

    fn handle<'a>(&'a self, _: &'a mut Request) -> MaybeFuture<'a, HandlerResult> {
        Err(Fault::internal("the handler of a filter was not read")).into()
    }
}

impl PartialEq for HandlerSetting {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.settings.value == other.settings.value
    }
}

impl fmt::Debug for HandlerSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)
    }
}

/// As `explain` shows it.
impl fmt::Display for HandlerSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let said = self.plan().map(|plan| plan.describe()).unwrap_or_default();
        let space = if said.is_empty() { "" } else { " " };
        write!(f, "{}{space}{said}", self.name)
    }
}

impl Setting for HandlerSetting {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        // Defined by `config`, where routes have handlers.
        Schema::Ref("config::Handler")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let (key, settings) = tagged(node, reader)?;
        let name = Spanned::new(key.name.clone(), key.span);
        Some(HandlerSetting { name, settings: settings.clone(), plan: Arc::default() })
    }
}
