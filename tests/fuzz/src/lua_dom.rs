//! `net.http.dom` of Lua: any page is read, and what it gives is no more than what the page has.

use crate::{FuzzTarget, owned};
use lua_std::{VmContext, open_vm};
use lua_vm::{Vm, VmOptions};
use mlua::Function;
use std::rc::Rc;

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: page,
    seeds: || {
        let mut seeds = owned(PAGES);
        // Deeper than elements are nested.
        seeds.push("<div>".repeat(600).into_bytes());
        seeds
    },
    dictionary: &[
        "<",
        ">",
        "</",
        "/>",
        "<!--",
        "-->",
        "=",
        "\"",
        "'",
        " ",
        "class",
        "id",
        "&amp;",
        "&#60;",
        "<script>",
        "</script>",
        "<li>",
        "<p>",
        "<br>",
        "<title>",
    ],
    cases: 200,
};

const PAGES: &[&str] = &[
    "",
    "<!DOCTYPE html><html lang=en><head><title>A &lt; B</title></head><body class='a b'>x</body>",
    "<ul id=list><li class=\"one\">1<li>2<br/></ul><p>a<b>c</p>d",
    "<script>if (a < b) {}</script><style>p > a {}</style>",
    "<table><tr><td>1<td>2<tr><th x = y>3</table>",
];

/// Raises when an invariant is broken.
const CHECK: &str = r#"
local dom = require "tide.net.http.dom"
return function(text)
  local node, why = dom.parse(text)
  if not node then
    assert(why == "there is no element")
    return
  end
  local all = node:select "*"
  assert(all[1] == node and #all <= #text)
  assert(#node:text() <= #text)
  local seen = {}
  for i, each in ipairs(all) do
    assert(not seen[each], "an element is in two places")
    seen[each] = true
    assert(#each.name > 0 and each.name == each.name:lower())
    -- Each of them searches the page.
    if i <= 20 and not each.name:find "[.#*]" then assert(#each:select(each.name) >= 1) end
    for _, class in ipairs(each.class) do assert(each:match { class = class }) end
  end
end
"#;

thread_local! {
    static VM: (Rc<Vm>, Function) = {
        let vm = open_vm(VmOptions::default(), VmContext::default()).expect("a VM");
        let check = vm.lua().load(CHECK).set_name("=check").eval().expect("a function");
        (vm, check)
    };
}

fn page(data: &[u8]) {
    VM.with(|(vm, check)| {
        let text = vm.lua().create_string(data).expect("memory");
        if let Err(error) = check.call::<()>(text) {
            panic!("{error}");
        }
    });
}
