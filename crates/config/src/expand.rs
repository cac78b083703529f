//! Replaces `${NAME}` in values by the environment variable NAME; `$${` is a literal `${`.
//!
//! Keys are not expanded, and values are expanded once. The document itself stays as written, so
//! that it can be saved again. No error contains a value of the environment.

use settings::{Node, Report, Scalar, Span, Value, Variable, quote};

use crate::limits::EXPANDED_BYTES;

/// The source of environment variables: the process, or a test.
pub type Environment<'e> = dyn Fn(&str) -> Option<String> + Sync + 'e;

/// The environment of this process. What is not text counts as not set.
pub fn process_environment(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// Expands every text below a node in place.
pub(crate) fn expand(node: &mut Node, environment: &Environment<'_>, report: &mut Report) {
    match &mut node.value {
        Value::Null | Value::Broken => {}
        Value::Scalar(scalar) => {
            if scalar.text.contains("${")
                && expand_scalar(scalar, node.span, environment, report).is_none()
            {
                node.value = Value::Broken;
            }
        }
        Value::List(items) => items.iter_mut().for_each(|item| expand(item, environment, report)),
        Value::Map(entries) => {
            entries.iter_mut().for_each(|(_, item)| expand(item, environment, report));
        }
    }
}

/// `None` when it cannot be: an error was reported.
fn expand_scalar(
    scalar: &mut Scalar,
    span: Span,
    env: &Environment<'_>,
    report: &mut Report,
) -> Option<()> {
    let mut out = String::with_capacity(scalar.text.len());
    let mut rest = scalar.text.as_str();
    let (mut replaced, mut broken) = (false, false);
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            out.push_str(before);
            out.push_str("${");
            rest = &from[2..];
            continue;
        }
        out.push_str(before);
        let Some(end) = from.find('}') else {
            report
                .error(span, "${ without its }")
                .help("an environment variable is ${NAME}; for the text itself write $${");
            return None;
        };
        replaced = true;
        let name = &from[2..end];
        match value(name, env) {
            Ok(value) if out.len() + value.len() <= EXPANDED_BYTES => out.push_str(&value),
            Ok(_) => {
                report.error(span, format!("the text is longer than {EXPANDED_BYTES} bytes"));
                return None;
            }
            Err(NoValue::Unset { .. }) if report.allow_unset(name) => broken = true,
            Err(NoValue::Unset { why, help }) => {
                report.error(span, why).help(help).rule("unset-variable");
                broken = true;
            }
            Err(NoValue::BadName { why, help }) => {
                report.error(span, why).help(help);
                broken = true;
            }
        }
        rest = &from[end + 1..];
    }
    out.push_str(rest);
    let typed = std::mem::replace(&mut scalar.text, out);
    if replaced {
        scalar.typed = Some(typed);
    }
    (!broken).then_some(())
}

/// Why a variable has no value.
enum NoValue {
    BadName { why: String, help: String },
    Unset { why: String, help: String },
}

fn value(name: &str, environment: &Environment<'_>) -> Result<String, NoValue> {
    let valid = |c: char| c.is_ascii_alphanumeric() || c == '_';
    if name.is_empty() || !name.chars().all(valid) || name.starts_with(|c: char| c.is_ascii_digit())
    {
        let why = format!("{} is not a valid name of an environment variable", quote(name));
        let help = "between ${ and } stands a name only, such as ${TOKEN}".to_owned();
        return Err(NoValue::BadName { why, help });
    }
    environment(name).ok_or_else(|| {
        let why = format!("the environment variable {} is not set", quote(name));
        // `${host}` is how nginx and shells would write it.
        let help = match Variable::parse(name) {
            Ok(_) => {
                format!("a variable of the request is written {{{name}}}, without the dollar sign")
            }
            Err(_) => "set it where tidegate starts; for the text itself write $${".to_owned(),
        };
        NoValue::Unset { why, help }
    })
}

#[cfg(test)]
mod tests {
    use settings::{Node, Report, Value, node};

    use super::expand;

    fn run(text: &str) -> (Node, String) {
        let mut node = node!([text]);
        let mut report = Report::new();
        let env = |name: &str| match name {
            "TOKEN" => Some("hunter2".to_owned()),
            "NESTED" => Some("${TOKEN}".to_owned()),
            "EMPTY" => Some(String::new()),
            "HUGE" => Some("x".repeat(1 << 20)),
            _ => None,
        };
        expand(&mut node, &env, &mut report);
        (node.list().unwrap()[0].clone(), report.render())
    }

    #[test]
    fn names_become_their_values() {
        for (text, expected) in [
            ("${TOKEN}", "hunter2"),
            ("a ${TOKEN} b ${TOKEN}", "a hunter2 b hunter2"),
            ("$${TOKEN}", "${TOKEN}"),
            ("$$${TOKEN}", "$${TOKEN}"),
            ("${NESTED}", "${TOKEN}"),
            ("${EMPTY}", ""),
            ("$TOKEN {host} $", "$TOKEN {host} $"),
        ] {
            let (node, errors) = run(text);
            assert_eq!((node.text(), errors.as_str()), (Some(expected), ""), "{text}");
        }
    }

    #[test]
    fn what_was_typed_is_what_is_shown() {
        let (node, _) = run("Bearer ${TOKEN}");
        let Value::Scalar(scalar) = &node.value else { panic!("not a scalar") };
        assert_eq!(scalar.shown(), "Bearer ${TOKEN}");
        assert!(!format!("{node:?}").contains("hunter2"));
        let (node, _) = run("$${x}");
        let Value::Scalar(scalar) = &node.value else { panic!("not a scalar") };
        assert_eq!(scalar.shown(), "${x}");
    }

    #[test]
    fn errors_name_the_variable_and_leak_nothing() {
        for (text, expected) in [
            ("${TOKNE}", "the environment variable \"TOKNE\" is not set"),
            ("${host}", "is written {host}, without the dollar sign"),
            ("${TOKEN", "${ without its }"),
            ("${TOKEN:-x}", "\"TOKEN:-x\" is not a valid name"),
            ("${}", "\"\" is not a valid name"),
            ("${HUGE}${HUGE}", "longer than"),
            ("${TOKEN}${NO}", "\"NO\" is not set"),
        ] {
            let (_, errors) = run(text);
            assert!(errors.contains(expected), "{errors}\nwanted {expected}");
            assert!(!errors.contains("hunter2") && !errors.contains("\"TOKEN\""), "{errors}");
        }
    }
}
