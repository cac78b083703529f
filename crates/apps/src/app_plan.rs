//! The handler kind `app` of the configuration, and what workers build from it.

use std::any::Any;
use std::rc::Rc;
use std::sync::Arc;

use plugin::{Handler, HandlerKind, HandlerPlan, WorkerContext};
use settings::{Node, Reader, Schema, SchemaBuilder, Setting, Spanned};

use crate::backend::{AppBackend, QueueBackend};
use crate::handler::AppHandler;
use crate::in_process::InProcess;
use crate::remote::Remote;
use crate::settings::{AppSettings, Interface};

/// `handler: { app: NAME }`.
pub static HANDLER: HandlerKind = HandlerKind { name: "app", schema, read };

fn schema(builder: &mut SchemaBuilder) -> Schema {
    String::schema(builder)
}

fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Arc<dyn HandlerPlan>> {
    let app = Spanned::<String>::read(node, reader)?;
    Some(Arc::new(AppPlan { app, settings: None }))
}

/// The handler of one route, as configured.
pub struct AppPlan {
    app: Spanned<String>,
    /// The settings of the application, once `config` has resolved them.
    settings: Option<Arc<AppSettings>>,
}

impl AppPlan {
    /// Returns this handler plan if it is of kind `app`.
    pub fn of(plan: &dyn HandlerPlan) -> Option<&AppPlan> {
        plan.as_any()?.downcast_ref()
    }

    /// The application it names, with its position in the configuration.
    pub fn app(&self) -> &Spanned<String> {
        &self.app
    }

    /// Returns the plan with the settings of its application.
    pub fn with(&self, settings: Arc<AppSettings>) -> AppPlan {
        AppPlan { app: self.app.clone(), settings: Some(settings) }
    }
}

impl HandlerPlan for AppPlan {
    fn name(&self) -> &'static str {
        HANDLER.name
    }

    fn build(&self, worker: &WorkerContext) -> Rc<dyn Handler> {
        let backend: Rc<dyn AppBackend> = match InProcess::of(&worker.shared, &self.app).queue() {
            Some(queue) => Rc::new(QueueBackend::new(queue)),
            None => Rc::new(Remote::of(worker, &self.app)),
        };
        let limits = self.settings.as_deref().map(AppSettings::exchange_limits);
        let in_flight = self.settings.as_ref().map_or(u32::MAX, |app| app.limits.in_flight);
        // WSGI has no WebSocket: such a request is an ordinary request.
        let talks = self.settings.as_ref().filter(|app| app.interface != Interface::Wsgi);
        let websocket = talks.map(|app| app.websocket.clone());
        Rc::new(AppHandler::new(backend, limits.unwrap_or_default(), in_flight, websocket))
    }

    fn describe(&self) -> String {
        self.app.value.clone()
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}
