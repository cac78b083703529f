//! Describes the difference between two plans, for the log and the admin API.

use std::collections::HashMap;

use config::{ListenerPlan, Part, ServerPlan};

use crate::listeners::key;

/// Returns a line for each added, removed or changed item: `route "shop" added`, `timeouts
/// changed`. Empty if the texts differ only in layout.
pub fn changes(before: &ServerPlan, after: &ServerPlan) -> Vec<String> {
    let (old, new) = (named(before), named(after));
    let mut lines = Vec::new();
    for part in &after.parts {
        match old.get(&part.identity()) {
            None => lines.push(format!("{part} added")),
            Some(old) if *old != part => lines.push(format!("{part} changed")),
            Some(_) => {}
        }
    }
    let gone = before.parts.iter().filter(|part| !new.contains_key(&part.identity()));
    lines.extend(gone.map(|part| format!("{part} removed")));
    // Of two routes that match alike the first one wins.
    if kept_routes(before, &new).ne(kept_routes(after, &old)) {
        lines.push("the order of routes changed".to_owned());
    }
    lines
}

/// Returns a sentence for each change that takes effect only after a restart.
pub(crate) fn waiting(before: &ServerPlan, after: &ServerPlan) -> Vec<String> {
    let mut lines = Vec::new();
    if before.workers != after.workers {
        lines.push("workers are started once: their number changes with a restart".to_owned());
    }
    if before.admin.consumer_changes != after.admin.consumer_changes {
        lines.push(
            "admin.consumer_changes is read at start: the file changes with a restart".to_owned(),
        );
    }
    for listener in after.sockets() {
        let kept = |old: &&ListenerPlan| key(old) == key(listener);
        if before.sockets().find(kept).is_some_and(|old| old.options != listener.options) {
            lines.push(format!(
                "listener \"{}\" keeps its socket: backlog, nodelay and keepalive change with a \
                 restart",
                listener.name
            ));
        }
    }
    lines
}

type Named<'p> = HashMap<(&'p str, Option<&'p str>), &'p Part>;

fn named(plan: &ServerPlan) -> Named<'_> {
    plan.parts.iter().map(|part| (part.identity(), part)).collect()
}

/// Returns the routes that both plans have, in this plan's order.
fn kept_routes<'p>(
    plan: &'p ServerPlan,
    other: &Named<'p>,
) -> impl Iterator<Item = Option<&'p str>> {
    let routes = plan.parts.iter().filter(|part| part.kind == "route");
    let both = routes.filter(|part| other.contains_key(&part.identity()));
    both.map(|part| part.name.as_deref())
}

/// A minimal plan, shared by tests of this crate.
#[cfg(test)]
pub(crate) fn plan_of(text: &str) -> std::sync::Arc<ServerPlan> {
    let source = config::TextSource::new("test.yaml", text);
    match config::load(&source, &|_| None, &config::Kinds::all()) {
        Ok(loaded) => loaded.plan,
        Err(report) => panic!("{}", report.render()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "
listeners: { web: { bind: \"127.0.0.1:0\" } }
routes:
  - { name: kept, match: { path: /kept }, handler: { respond: { body: a } } }
  - { name: gone, match: { path: /gone }, handler: { respond: { body: b } } }
  - { name: other, match: { path: /other }, handler: { respond: { body: c } } }
";

    #[test]
    fn what_came_went_and_changed_is_named() {
        let after = BEFORE
            .replace("name: gone, match: { path: /gone }", "name: new, match: { path: /new }")
            .replace("path: /other", "path: /elsewhere");
        let lines = changes(&plan_of(BEFORE), &plan_of(&after));
        assert_eq!(
            lines,
            ["route \"new\" added", "route \"other\" changed", "route \"gone\" removed"]
        );
        assert!(changes(&plan_of(BEFORE), &plan_of(BEFORE)).is_empty());
    }

    #[test]
    fn what_needs_a_restart_says_so() {
        let before = plan_of(BEFORE);
        let said = |old: &str, new: &str| waiting(&before, &plan_of(&BEFORE.replace(old, new)));
        assert_eq!(said("body: a", "body: x"), [""; 0]);
        assert!(said("listeners", "workers: 3\nlisteners")[0].starts_with("workers are started"));
        let options = said("127.0.0.1:0\"", "127.0.0.1:0\", backlog: 7");
        assert!(options[0].starts_with("listener \"web\" keeps its socket"), "{options:?}");
        assert_eq!(said("127.0.0.1:0\"", "127.0.0.1:1\", backlog: 7"), [""; 0], "a new socket");
    }

    #[test]
    fn nothing_is_changed_in_silence() {
        let chained = format!(
            "{}\nchains: {{ public: [{{ compress: {{ min_size: 1KiB }} }}] }}\n\
             defaults: {{ filters: [{{ chain: public }}] }}\n\
             timeouts: {{ idle: 70s }}\nadmin: {{ token: one }}\nlog: {{ level: info }}\n",
            BEFORE.trim_end()
        );
        let before = plan_of(&chained);
        for (old, new, said) in [
            // Not visible in any description.
            ("body: c", "body: d", "route \"other\" changed"),
            ("min_size: 1KiB", "min_size: 2KiB", "chain \"public\" changed"),
            ("idle: 70s", "idle: 71s", "timeouts changed"),
            ("token: one", "token: two", "admin changed"),
            ("level: info", "level: warn", "log changed"),
            ("log: { level: info }", "", "log removed"),
            ("listeners:", "workers: 3\nlisteners:", "workers added"),
            ("127.0.0.1:0", "127.0.0.1:1", "listener \"web\" changed"),
        ] {
            let after = chained.replacen(old, new, 1);
            assert_ne!(after, chained, "{old}");
            assert_eq!(changes(&before, &plan_of(&after)), [said], "{old}");
        }
        let laid_out =
            chained.replace("body: c", "\"body\":   'c'").replace("routes:", "routes: # as before");
        assert!(changes(&before, &plan_of(&laid_out)).is_empty());
        let line = |name: &str| {
            let at = format!("  - {{ name: {name}");
            chained.lines().find(|line| line.starts_with(&at)).expect("a route").to_owned()
        };
        let (gone, other) = (line("gone"), line("other"));
        let both = |first: &str, second: &str| format!("{first}\n{second}");
        let swapped = chained.replace(&both(&gone, &other), &both(&other, &gone));
        assert_eq!(changes(&before, &plan_of(&swapped)), ["the order of routes changed"]);
    }

    #[test]
    fn a_file_that_is_another_is_named() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let admin = format!("{BEFORE}admin: {{ token: {{ file: {:?} }} }}\n", file.path());
        std::fs::write(file.path(), "one").expect("written");
        let before = plan_of(&admin);
        std::fs::write(file.path(), "two").expect("written");
        let after = plan_of(&admin);
        let said = format!("file \"{}\" changed", file.path().display());
        assert_eq!(changes(&before, &after), [said]);
    }
}
