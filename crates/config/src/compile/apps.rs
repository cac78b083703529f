//! Applications, and the routes that name them: references.

use std::sync::Arc;

use apps::{AppPlan, AppSettings};
use plugin::HandlerPlan;
use settings::{Report, Spanned};

use crate::records::Settings;

/// The declared applications, by name.
pub(super) type Apps = Vec<(String, Arc<AppSettings>)>;

pub(super) fn compile(settings: &Settings) -> Apps {
    let entries = settings.apps.entries.iter();
    entries.map(|(name, app)| (name.value.clone(), Arc::new(app.clone()))).collect()
}

/// A handler that names an application, with the settings of that; any other as it is.
pub(super) fn resolve(
    handler: Arc<dyn HandlerPlan>,
    apps: &Apps,
    settings: &Settings,
    report: &mut Report,
) -> Arc<dyn HandlerPlan> {
    let Some(plan) = AppPlan::of(&*handler) else { return handler };
    let app = plan.app();
    if let Some((_, found)) = apps.iter().find(|(name, _)| *name == app.value) {
        return Arc::new(plan.with(found.clone()));
    }
    if settings.apps.names().any(|broken| broken == app.value) {
        return handler; // declared, with errors of its own
    }
    let error = report.dangling(app.span, "app", app, settings.apps.names());
    if apps.is_empty() {
        error.help(format!("declare it: apps: {{ {}: {{ python: \"module:app\" }} }}", app.value));
    }
    handler
}

/// The application that a handler names.
pub(super) fn named(handler: &dyn HandlerPlan) -> Option<&Spanned<String>> {
    AppPlan::of(handler).map(AppPlan::app)
}

#[cfg(test)]
mod tests {
    use crate::{Kinds, TextSource, load};

    fn errors(apps: &str, handler: &str) -> String {
        let text = format!(
            "listeners: {{ web: {{ bind: ':80' }} }}\n{apps}\nroutes: [{{ handler: {handler} }}]\n"
        );
        match load(&TextSource::new("t", &text), &|_| None, &Kinds::all()) {
            Ok(_) => String::new(),
            Err(report) => report.render(),
        }
    }

    #[test]
    fn names_are_resolved_and_unused_apps_are_reported() {
        let declared = "apps: { shop: { python: \"shop.web:app\" } }";
        assert_eq!(errors(declared, "{ app: shop }"), "");
        let dangling = errors(declared, "{ app: shob }");
        assert!(dangling.contains("did you mean \"shop\"?"), "{dangling}");
        let none = errors("", "{ app: shop }");
        assert!(none.contains("apps: { shop: { python: \"module:app\" } }"), "{none}");
        let unused = errors(declared, "{ respond: {} }");
        assert!(unused.contains("app") && unused.contains("shop"), "{unused}");
    }
}
