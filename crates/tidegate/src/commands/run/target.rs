//! The argument of `tidegate run`: a Lua program or a Python application, and suggestions for
//! anything else.

use std::path::Path;

/// The program to run.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The name of a file that ends in `.lua`.
    Lua,
    /// A Python application, `MODULE:APP`.
    Python,
}

impl Target {
    /// Parses the argument; the error is a complete sentence.
    pub(super) fn parse(typed: &str) -> Result<Self, String> {
        if Path::new(typed).extension().is_some_and(|extension| extension == "lua") {
            return Ok(Target::Lua);
        }
        let (module, attribute) = match typed.rsplit_once(':') {
            Some((module, attribute)) => (module, attribute),
            None => (typed, ""),
        };
        if let Some(called) = attribute.strip_suffix(')') {
            return Err(call(typed, module, called));
        }
        if is_dotted(module) && !module.ends_with(".py") && is_dotted(attribute) {
            return Ok(Target::Python);
        }
        let attribute = if attribute.is_empty() { "app" } else { attribute };
        match suggested_module(module).filter(|_| is_dotted(attribute)) {
            Some(meant) => Err(format!(
                "\"{typed}\" {}: did you mean {meant}:{attribute}?",
                if meant == module {
                    "does not say what in the module is the application"
                } else {
                    "names a file, not a module"
                }
            )),
            None => Err(format!(
                "\"{typed}\" is neither a Lua program (FILE.lua) nor an application of Python \
                 (MODULE:APP, such as shop.web:app)"
            )),
        }
    }
}

/// Suggests `--factory` for gunicorn's `app:create()`.
fn call(typed: &str, module: &str, called: &str) -> String {
    match called.split_once('(') {
        Some((name, "")) if is_dotted(module) && is_dotted(name) => {
            format!("\"{typed}\" is a call: did you mean --factory {module}:{name}?")
        }
        _ => format!(
            "\"{typed}\" is a call with arguments: write a function without any, and \
             --factory MODULE:FUNCTION"
        ),
    }
}

/// Returns the module of a file: `./src/shop/web.py` is `src.shop.web`; a file elsewhere needs an
/// option.
fn suggested_module(typed: &str) -> Option<String> {
    let bare = typed.strip_prefix("./").unwrap_or(typed);
    let bare = bare.strip_suffix(".py").unwrap_or(bare).trim_end_matches('/');
    let bare = bare.strip_suffix("/__init__").unwrap_or(bare);
    let dotted = bare.replace('/', ".");
    if is_dotted(&dotted) {
        return Some(dotted);
    }
    let (directory, module) = bare.rsplit_once('/')?;
    let directory = if directory.is_empty() { "/" } else { directory };
    is_dotted(module).then(|| format!("--app-dir {directory} {module}"))
}

/// True for Python names with dots between them. Letters beyond ASCII are left to Python.
fn is_dotted(text: &str) -> bool {
    text.split('.').all(|name| {
        let mut letters = name.chars();
        letters.next().is_some_and(|first| first.is_alphabetic() || first == '_')
            && letters.all(|letter| letter.is_alphanumeric() || letter == '_')
    })
}

#[cfg(test)]
mod tests {
    use super::Target;

    #[test]
    fn programs_and_applications() {
        assert_eq!(Target::parse("examples/lua/ping.lua"), Ok(Target::Lua));
        assert_eq!(Target::parse("a:b.lua"), Ok(Target::Lua));
        for typed in ["app:app", "shop.web:site.wsgi", "_größe:_x1"] {
            assert_eq!(Target::parse(typed), Ok(Target::Python));
        }
    }

    #[test]
    fn what_was_meant_is_reported() {
        for (typed, said) in [
            ("app", "what in the module is the application: did you mean app:app?"),
            ("shop.web:", "what in the module is the application: did you mean shop.web:app?"),
            ("app.py", "names a file, not a module: did you mean app:app?"),
            ("app.py:site", "names a file, not a module: did you mean app:site?"),
            ("./src/shop/web.py:app", "did you mean src.shop.web:app?"),
            ("src/shop/__init__.py", "did you mean src.shop:app?"),
            ("src/shop:app", "did you mean src.shop:app?"),
            ("shop:create()", "did you mean --factory shop:create?"),
            ("shop:create('x')", "a call with arguments"),
            ("/srv/app.py:app", "did you mean --app-dir /srv app:app?"),
            ("../app.py", "did you mean --app-dir .. app:app?"),
            ("a-b:app", "neither a Lua program"),
            ("app:1", "neither a Lua program"),
            ("", "neither a Lua program"),
            (":", "neither a Lua program"),
            ("notes.txt", "did you mean notes.txt:app?"),
        ] {
            let why = Target::parse(typed).unwrap_err();
            assert!(why.contains(said), "{typed}: {why}");
            assert!(why.starts_with(&format!("\"{typed}\" ")), "{why}");
        }
    }
}
