//! Type definitions of the modules, for lua-language-server (LuaCATS).
//!
//! The source is `lua/definitions.txt`: one line for each function, method and field, from which
//! the files of [`files`] are generated. A test compares its names with the modules as they are
//! loaded. Line by line:
//!
//! ```text
//! # net.tcp | A module and its description; __call(…) is the module called as a function.
//! ## Conn | A class of the module; types name it without the module.
//! connect(addr: string, ms?: integer): Conn?, string? | A function.
//! :read(n: integer): string?, string? | A method of the class above.
//! addr: string | A field of the module or the class.
//! @methods Conn | The methods of a class are functions of the module too.
//! ```

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::MODULES;

const SOURCE: &str = include_str!("../../../lua/definitions.txt");

/// A function or a method.
#[derive(Clone)]
struct FunctionType<'a> {
    name: &'a str,
    /// Names, with a `?` behind an optional one, and types.
    parameters: Vec<(&'a str, &'a str)>,
    results: Vec<&'a str>,
    text: &'a str,
}

/// A module or a class.
#[derive(Default)]
struct ClassType<'a> {
    name: &'a str,
    text: &'a str,
    fields: Vec<(&'a str, &'a str, &'a str)>,
    functions: Vec<FunctionType<'a>>,
}

/// A module and its classes.
struct ModuleType<'a> {
    module: ClassType<'a>,
    classes: Vec<ClassType<'a>>,
    /// The class whose methods are functions of the module too.
    methods_of: Option<&'a str>,
}

/// The files of the definitions: paths below a library directory, and texts.
pub fn files() -> Vec<(String, String)> {
    let modules = parse(SOURCE);
    let mut files = Vec::new();
    for &(name, aliases, _) in MODULES {
        let family = |family: &str| match name {
            "" => family.to_owned(),
            _ => format!("{family}.{name}"),
        };
        let own = family("silly");
        let Some(module) = modules.get(name_of(name)) else { continue };
        files.push((path(&own), definition(&own, module, &modules)));
        let others = aliases.iter().map(|alias| (*alias).to_owned());
        for alias in std::iter::once(family("tide")).chain(others) {
            let text = format!("---@meta {alias}\n\nreturn require \"{own}\"\n");
            files.push((path(&alias), text));
        }
    }
    files.push(("tests.lua".to_owned(), TESTS.to_owned()));
    files
}

/// The globals of a file that `tidegate test` runs.
const TESTS: &str = "\
---@meta

---Groups the tests that fn declares.
---@param name string
---@param fn function
function describe(name, fn) end

---Declares a test; timeout is in milliseconds.
---@param name string
---@param fn function
---@param options? { timeout?: integer }
function it(name, fn, options) end

---Calls fn before each test of this file or group.
---@param fn function
function before_each(fn) end

---Calls fn after each test of this file or group.
---@param fn function
function after_each(fn) end
";

/// The name of a module in the source.
fn name_of(name: &str) -> &str {
    if name.is_empty() { "silly" } else { name }
}

fn path(module: &str) -> String {
    format!("{}.lua", module.replace('.', "/"))
}

fn parse(source: &str) -> BTreeMap<&str, ModuleType<'_>> {
    let mut modules = BTreeMap::new();
    for part in source.split("\n# ") {
        let part = part.strip_prefix("# ").unwrap_or(part);
        let mut classes: Vec<ClassType<'_>> = Vec::new();
        let mut methods_of = None;
        for line in part.lines().filter(|line| !line.is_empty()) {
            let (line, text) = line.split_once(" | ").unwrap_or((line, ""));
            if classes.is_empty() {
                classes.push(ClassType { name: line, text, ..ClassType::default() });
            } else if let Some(name) = line.strip_prefix("## ") {
                classes.push(ClassType { name, text, ..ClassType::default() });
            } else if let Some(name) = line.strip_prefix("@methods ") {
                methods_of = Some(name);
            } else if let Some(class) = classes.last_mut() {
                entry(class, line, text);
            }
        }
        let module = classes.remove(0);
        modules.insert(module.name, ModuleType { module, classes, methods_of });
    }
    modules
}

/// Adds a line to its module or class.
fn entry<'a>(class: &mut ClassType<'a>, line: &'a str, text: &'a str) {
    let is_function =
        line.find('(').is_some_and(|at| !line[..at].contains(':') || line.starts_with(':'));
    if !is_function {
        let (name, kind) = line.split_once(": ").unwrap_or((line, "any"));
        class.fields.push((name, kind, text));
        return;
    }
    let (name, rest) = line.split_once('(').unwrap_or((line, ")"));
    let end = closing(rest);
    let parameters = pieces(&rest[..end]).into_iter();
    let parameters =
        parameters.map(|piece| piece.split_once(": ").unwrap_or((piece, "any"))).collect();
    let results = rest[end..].strip_prefix("): ").map(pieces).unwrap_or_default();
    class.functions.push(FunctionType { name, parameters, results, text });
}

/// Position of the parenthesis that closes one before the text.
fn closing(text: &str) -> usize {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 0 => return at,
            ')' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// The parts between commas that are in no parentheses or brackets.
fn pieces(text: &str) -> Vec<&str> {
    let (mut pieces, mut depth, mut begin) = (Vec::new(), 0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' | '<' | '{' => depth += 1,
            ')' | '>' | '}' => depth -= 1,
            ',' if depth == 0 => {
                pieces.push(text[begin..at].trim());
                begin = at + 1;
            }
            _ => {}
        }
    }
    pieces.push(text[begin..].trim());
    pieces.retain(|piece| !piece.is_empty());
    pieces
}

/// The text of a module's file.
fn definition(own: &str, module: &ModuleType<'_>, all: &BTreeMap<&str, ModuleType<'_>>) -> String {
    let mut out = format!("---@meta {own}\n");
    let named: Vec<&str> = module.classes.iter().map(|class| class.name).collect();
    let qualified = |kind: &str| qualify(kind, own, &named);
    for class in &module.classes {
        describe(&mut out, class.text);
        let name = format!("{own}.{}", class.name);
        line(&mut out, format_args!("---@class {name}"));
        fields(&mut out, class, &qualified);
        if !class.functions.is_empty() {
            line(&mut out, format_args!("local {} = {{}}", class.name));
            for function in &class.functions {
                let method = function.name.trim_start_matches(':');
                write_function(&mut out, function, &format!("{}:{method}", class.name), &qualified);
            }
        }
    }
    describe(&mut out, module.module.text);
    line(&mut out, format_args!("---@class {own}"));
    fields(&mut out, &module.module, &qualified);
    let (calls, functions): (Vec<_>, Vec<_>) =
        module.module.functions.iter().partition(|function| function.name == "__call");
    for call in calls {
        line(&mut out, format_args!("---@overload {}", function_type(call, &qualified)));
    }
    line(&mut out, format_args!("local M = {{}}"));
    for function in functions {
        let dot = if function.name.starts_with(':') { "" } else { "." };
        write_function(&mut out, function, &format!("M{dot}{}", function.name), &qualified);
    }
    let class = module.methods_of.map(|class| qualify(class, own, &named)).unwrap_or_default();
    for function in forms(module, all) {
        let mut function = function.clone();
        function.parameters.insert(0, ("object", &class));
        let name = function.name.trim_start_matches(':');
        write_function(&mut out, &function, &format!("M.{name}"), &qualified);
    }
    out.push_str("\nreturn M\n");
    out
}

/// The methods that are functions of the module too.
fn forms<'a>(
    module: &ModuleType<'a>,
    all: &'a BTreeMap<&str, ModuleType<'a>>,
) -> Vec<&'a FunctionType<'a>> {
    let Some(name) = module.methods_of else { return Vec::new() };
    let (owner, class) = name
        .strip_prefix("silly.")
        .and_then(|name| name.rsplit_once('.'))
        .unwrap_or((module.module.name, name));
    let classes = all.get(owner).map(|owner| &owner.classes[..]).unwrap_or_default();
    let found = classes.iter().find(|found| found.name == class);
    let own: Vec<&str> = module.module.functions.iter().map(|function| function.name).collect();
    let methods = found.into_iter().flat_map(|class| &class.functions);
    methods.filter(|method| !own.contains(&method.name.trim_start_matches(':'))).collect()
}

/// A type with the classes of the module under their full names.
fn qualify(kind: &str, own: &str, classes: &[&str]) -> String {
    let mut out = String::new();
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == '.';
    let mut rest = kind;
    while !rest.is_empty() {
        let end = rest.find(|letter| !is_part(letter)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if classes.contains(&word) {
            out.push_str(own);
            out.push('.');
        }
        out.push_str(word);
        let next = after.find(is_part).unwrap_or(after.len());
        out.push_str(&after[..next]);
        rest = &after[next..];
    }
    out
}

fn line(out: &mut String, text: std::fmt::Arguments<'_>) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{text}");
}

fn describe(out: &mut String, text: &str) {
    out.push('\n');
    if !text.is_empty() {
        line(out, format_args!("---{text}"));
    }
}

fn fields(out: &mut String, class: &ClassType<'_>, qualified: &dyn Fn(&str) -> String) {
    for (name, kind, text) in &class.fields {
        let kind = qualified(kind);
        line(out, format_args!("{}", format!("---@field {name} {kind} {text}").trim_end()));
    }
}

fn write_function(
    out: &mut String,
    function: &FunctionType<'_>,
    name: &str,
    qualified: &dyn Fn(&str) -> String,
) {
    describe(out, function.text);
    for (name, kind) in &function.parameters {
        line(out, format_args!("---@param {name} {}", qualified(kind)));
    }
    for result in &function.results {
        // Any number of values.
        let result = if *result == "any..." { "any ..." } else { result };
        line(out, format_args!("---@return {}", qualified(result)));
    }
    let names: Vec<&str> =
        function.parameters.iter().map(|(name, _)| name.trim_end_matches('?')).collect();
    line(out, format_args!("function {name}({}) end", names.join(", ")));
}

/// A function as a type.
fn function_type(function: &FunctionType<'_>, qualified: &dyn Fn(&str) -> String) -> String {
    let parameters: Vec<String> = function
        .parameters
        .iter()
        .map(|(name, kind)| format!("{name}: {}", qualified(kind)))
        .collect();
    let results: Vec<String> = function.results.iter().map(|kind| qualified(kind)).collect();
    let results =
        if results.is_empty() { String::new() } else { format!(": {}", results.join(", ")) };
    format!("fun({}){results}", parameters.join(", "))
}

#[cfg(test)]
mod tests;
