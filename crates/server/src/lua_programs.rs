//! The Lua files of the current plan and their last errors, for the admin API.

use std::collections::BTreeMap;

use admin::limits::{LUA_FILE_USERS, LUA_FILES};
use admin::{LuaError, LuaFileStatus, LuaStatus};
use config::ServerPlan;
use lua_host::{FILTER, HANDLER};
use telemetry::RecentErrors;

/// Returns the files by their paths, and the errors, the latest first.
pub(crate) fn status(plan: &ServerPlan, errors: &RecentErrors) -> LuaStatus {
    let programs: BTreeMap<String, &str> = plan
        .programs
        .iter()
        .map(|(listener, program)| (program.file().display().to_string(), &*listener.name))
        .collect();
    let program_of = |file: Option<&String>| file.and_then(|file| programs.get(file));
    let errors = errors.latest().into_iter().map(|error| {
        let program = program_of(error.file.as_ref()).filter(|_| error.route.is_none());
        LuaError { program: program.map(|name| (*name).to_owned()), error }
    });
    LuaStatus { files: files(plan), errors: errors.collect() }
}

fn files(plan: &ServerPlan) -> Vec<LuaFileStatus> {
    let mut files: BTreeMap<String, LuaFileStatus> = BTreeMap::new();
    let mut add = |path: String, user: String| {
        if files.len() >= LUA_FILES && !files.contains_key(&path) {
            return;
        }
        let known = LuaFileStatus { path: path.clone(), ..LuaFileStatus::default() };
        let file = files.entry(path).or_insert(known);
        file.uses += 1;
        if file.used_by.len() < LUA_FILE_USERS {
            file.used_by.push(user);
        }
    };
    for route in &plan.routes {
        let filters = route.filters.iter().filter(|filter| filter.name() == FILTER.name);
        let handlers = route.handlers().filter(|handler| handler.name() == HANDLER.name);
        let paths = filters.map(|filter| filter.describe());
        for path in paths.chain(handlers.map(|handler| handler.describe())) {
            add(path, format!("route {}", route.name));
        }
    }
    for (listener, program) in &plan.programs {
        add(program.file().display().to_string(), listener.name.clone());
    }
    files.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::status;
    use crate::changes::plan_of;
    use admin::limits::LUA_FILE_USERS;
    use telemetry::RecentErrors;

    #[test]
    fn files_are_listed_with_what_uses_them() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        };
        let page = file("page.lua", "return function() end");
        let tag = file("tag.lua", "return {}");
        let ping = file("ping.lua", "return function() end");
        let routes: String = (0..LUA_FILE_USERS + 5)
            .map(|n| {
                format!("- {{ name: r{n}, match: {{ path: /{n} }}, handler: {{ lua: {page} }} }}\n")
            })
            .collect();
        let plan = plan_of(&format!(
            "listeners: {{ web: {{ bind: \"127.0.0.1:0\" }} }}
programs: [{{ bind: \"127.0.0.1:1\", lua: {ping} }}]
routes:
- {{ name: a, match: {{ path: /a }}, filters: [{{ lua: {tag} }}], handler: {{ respond: {{}} }} }}
{routes}"
        ));
        let found = status(&plan, &RecentErrors::default());
        let shown: Vec<_> =
            found.files.iter().map(|file| (&*file.path, &*file.used_by[0], file.uses)).collect();
        let uses = LUA_FILE_USERS + 5;
        let expected =
            [(&*page, "route r0", uses), (&*ping, "program-1", 1), (&*tag, "route a", 1)];
        assert_eq!(shown, expected);
        assert_eq!(found.files[0].used_by.len(), LUA_FILE_USERS);
        assert!(found.errors.is_empty());
    }
}
