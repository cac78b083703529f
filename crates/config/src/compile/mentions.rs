//! Upstreams that files of routes and programs name: scripts send requests to them.
//!
//! Promises that a name which nothing declares is reported once with file and line and the nearest
//! that is declared, and that an upstream which only a script uses counts as used.

use std::collections::HashSet;

use plugin::Mentions;
use settings::{Reader, quote};

use super::routes::Compiled;
use crate::records::Settings;
use crate::server_plan::ListenerPlan;

/// Reports what is dangling; returns the upstreams that a file may use.
pub(super) fn check(
    settings: &Settings,
    routes: &[Compiled],
    programs: &[(ListenerPlan, lua_host::ProgramPlan)],
    reader: &mut Reader<'_>,
) -> HashSet<String> {
    let of_routes = routes.iter().flat_map(|route| {
        let filters = route.plan.filters.iter().filter_map(|filter| filter.mentions());
        filters.chain(route.plan.handlers().filter_map(|handler| handler.mentions()))
    });
    let of_programs = programs.iter().map(|(_, program)| program.mentions());
    let all: Vec<&Mentions> = of_routes.chain(of_programs).collect();
    let mut seen = HashSet::new();
    for mention in all.iter().flat_map(|mentions| &mentions.upstreams) {
        let name = &mention.upstream;
        let declared = || settings.upstreams.names();
        // A filter of `defaults` belongs to every route.
        if declared().any(|known| known == name) || !seen.insert((&mention.place, name)) {
            continue;
        }
        let message = format!("{}: there is no upstream {}", mention.place, quote(name));
        reader.report().with_nearest(mention.span, message, name, declared());
    }
    let names = settings.upstreams.names();
    let used = names.filter(|name| all.iter().any(|mentions| mentions.texts.contains(*name)));
    used.map(str::to_owned).collect()
}
