//! The output of `ctl lua`: Lua files and the last errors of their code, from the JSON of the admin
//! API.

use serde_json::Value;

use super::errors::add_errors;
use super::status::{heads, list, text};
use crate::output::columns;

/// Formats the response of `/v1/lua`.
pub(crate) fn lua_text(lua: &Value) -> String {
    let mut rows = heads(["FILE", "USES", "USED BY"]);
    rows.extend(list(lua, "files").map(|file| {
        let mut users: Vec<&str> = list(file, "used_by").filter_map(Value::as_str).collect();
        if file["uses"].as_u64() > Some(users.len() as u64) {
            users.push("...");
        }
        [text(file, "path"), text(file, "uses"), users.join(", ")]
    }));
    let mut page = match rows.len() {
        1 => "this server runs no Lua code\n".to_owned(),
        _ => columns(&rows, 0),
    };
    add_errors(&mut page, "the last errors", &lua["errors"]);
    page
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::lua_text;

    #[test]
    fn files_and_the_last_errors() {
        let page = json!({ "path": "/srv/page.lua", "used_by": ["route a", "route b"], "uses": 3 });
        let ping = json!({ "path": "/srv/ping.lua", "used_by": ["program-1"], "uses": 1 });
        let of_route = json!({ "at": "now", "times": 3, "worker": 0, "route": "a", "program": null,
                               "file": "/srv/page.lua", "request": null,
                               "message": "page.lua:1: \u{1b}[2J",
                               "traceback": "stack traceback:\n\t[C]: in function 'error'" });
        let of_program = json!({ "at": "then", "times": 1, "worker": 1, "route": null,
                                 "program": "program-1", "file": "/srv/ping.lua",
                                 "message": "ping.lua:2: no\nof two lines", "traceback": "" });
        let expected = "\
FILE           USES  USED BY
/srv/page.lua  3     route a, route b, ...
/srv/ping.lua  1     program-1

the last errors
now route a, /srv/page.lua, worker 0 (3 times): page.lua:1: \\u{1b}[2J
  stack traceback:
    [C]: in function 'error'
then program-1, /srv/ping.lua, worker 1: ping.lua:2: no
  of two lines
";
        let lua = json!({ "files": [page, ping], "errors": [of_route, of_program] });
        assert_eq!(lua_text(&lua), expected);
        let none = lua_text(&json!({ "files": [], "errors": [] }));
        assert_eq!(none, "this server runs no Lua code\n");
    }
}
