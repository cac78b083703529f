//! Text with variables, `https://{host}{path}`, and keys, `header.x-user`. Parsed here, filled in
//! by `plugin`.
//!
//! Promises: one syntax everywhere; `{{` and `}}` are braces; an unknown name is an error with the
//! nearest valid one; what is displayed reads back as the same template.

use std::fmt;
use std::str::FromStr;

use crate::variable::{Variable, report_invalid};
use crate::{Node, Reader, Schema, SchemaBuilder, Setting};

/// Text with variables in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Template {
    pub parts: Vec<Part>,
}

/// A piece of a [`Template`]. Two texts never stand side by side, and none is empty.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    Text(String),
    Var(Variable),
}

/// The maximum number of parts of a template.
pub const TEMPLATE_PARTS: usize = 256;

impl Template {
    /// A template that is this text, whatever is in it.
    pub fn literal(text: impl Into<String>) -> Self {
        let text = text.into();
        let parts = if text.is_empty() { Vec::new() } else { vec![Part::Text(text)] };
        Template { parts }
    }

    /// The text, when there is no variable in it: what can be made once instead of per request.
    pub fn as_literal(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// True if a variable of it is set only by the filters that authenticate.
    pub fn needs_authentication(&self) -> bool {
        self.variables().any(Variable::needs_authentication)
    }

    pub fn variables(&self) -> impl Iterator<Item = &Variable> {
        self.parts.iter().filter_map(|part| match part {
            Part::Var(variable) => Some(variable),
            Part::Text(_) => None,
        })
    }
}

/// The error of a template or key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemplateError {
    /// A variable is invalid; the message quotes it.
    Variable(String),
    /// Everything else; the message quotes nothing of the text.
    Syntax(String),
}

impl TemplateError {
    pub(crate) fn report(self, node: &Node, reader: &mut Reader<'_>) {
        match self {
            TemplateError::Variable(message) => report_invalid(message, node, reader),
            TemplateError::Syntax(message) => {
                let found = node.found();
                reader.error(node.span, format!("{found} {message}"));
            }
        }
    }
}

impl fmt::Display for TemplateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TemplateError::Variable(message) | TemplateError::Syntax(message) => {
                f.write_str(message)
            }
        }
    }
}

/// Reports why a template is invalid; records the variables it uses with the reader.
fn noted(
    parsed: Result<Template, TemplateError>,
    node: &Node,
    reader: &mut Reader<'_>,
) -> Option<Template> {
    match parsed {
        Ok(template) => {
            for variable in template.variables() {
                reader.uses_variable(variable, node.span);
            }
            Some(template)
        }
        Err(error) => {
            error.report(node, reader);
            None
        }
    }
}

impl FromStr for Template {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        let syntax = |message: &str| Err(TemplateError::Syntax(message.to_owned()));
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            match c {
                '{' if chars.next_if_eq(&'{').is_some() => literal.push('{'),
                '}' if chars.next_if_eq(&'}').is_some() => literal.push('}'),
                '{' => {
                    let mut name = String::new();
                    loop {
                        match chars.next() {
                            Some('}') => break,
                            Some('{') | None => {
                                return syntax("has a { without its }: a brace itself is {{");
                            }
                            Some(c) => name.push(c),
                        }
                    }
                    let variable = Variable::parse(&name).map_err(TemplateError::Variable)?;
                    if !literal.is_empty() {
                        parts.push(Part::Text(std::mem::take(&mut literal)));
                    }
                    parts.push(Part::Var(variable));
                }
                '}' => return syntax("has a } without its {: a brace itself is }}"),
                c => literal.push(c),
            }
            if parts.len() > TEMPLATE_PARTS {
                return syntax(&format!("has more than {TEMPLATE_PARTS} parts"));
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Template { parts })
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in &self.parts {
            match part {
                Part::Text(text) => f.write_str(&text.replace('{', "{{").replace('}', "}}"))?,
                Part::Var(variable) => write!(f, "{{{variable}}}")?,
            }
        }
        Ok(())
    }
}

impl Setting for Template {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("template")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let scalar = reader.scalar(node, "text, perhaps with variables such as {host}")?;
        noted(scalar.text.parse(), node, reader)
    }
}

/// The key of requests: one variable, with or without braces, or several in a template.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Key(Template);

impl Key {
    pub fn template(&self) -> &Template {
        &self.0
    }

    /// The variable, when the key is just one: the common case, and a fast path.
    pub fn variable(&self) -> Option<&Variable> {
        match self.0.parts.as_slice() {
            [Part::Var(variable)] => Some(variable),
            _ => None,
        }
    }
}

impl FromStr for Key {
    type Err = TemplateError;

    fn from_str(text: &str) -> Result<Self, TemplateError> {
        if !text.contains(['{', '}']) {
            let variable = Variable::parse(text).map_err(TemplateError::Variable)?;
            return Ok(Key(Template { parts: vec![Part::Var(variable)] }));
        }
        let template = text.parse::<Template>()?;
        if template.variables().next().is_none() {
            let message = "is the same for every request: a key has a variable in it";
            return Err(TemplateError::Syntax(message.to_owned()));
        }
        Ok(Key(template))
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.variable() {
            Some(variable) => variable.fmt(f),
            None => self.0.fmt(f),
        }
    }
}

impl Setting for Key {
    fn schema(_: &mut SchemaBuilder) -> Schema {
        Schema::text("key")
    }

    fn read(node: &Node, reader: &mut Reader<'_>) -> Option<Self> {
        let scalar = reader.scalar(node, "a key such as client_ip or header.x-user")?;
        let parsed = scalar.text.parse::<Key>().map(|key| key.0);
        noted(parsed, node, reader).map(Key)
    }
}

#[cfg(test)]
mod tests {
    use super::{Key, Part, Template, Variable};
    use crate::{Node, Reader, Report, Scalar, Setting, Value, node, read};

    #[test]
    fn text_and_variables_alternate() {
        let template: Template =
            read(&node!("https://{host}{path}/{{x}}?u={header.X-User}")).unwrap();
        assert_eq!(
            template.parts,
            [
                Part::Text("https://".into()),
                Part::Var(Variable::Host),
                Part::Var(Variable::Path),
                Part::Text("/{x}?u=".into()),
                Part::Var(Variable::Header("x-user".into())),
            ]
        );
        assert_eq!(template.to_string(), "https://{host}{path}/{{x}}?u={header.x-user}");
        assert_eq!(template.to_string().parse(), Ok(template));
        assert_eq!(Template::literal("{a}").to_string(), "{{a}}");
        assert_eq!("a}}b".parse::<Template>().unwrap().as_literal(), Some("a}b"));
        assert_eq!("".parse::<Template>().unwrap().as_literal(), Some(""));
    }

    #[test]
    fn refuses_with_a_reason() {
        for (text, why) in [
            ("{clientip}", "unknown variable \"clientip\", did you mean \"client_ip\"?"),
            ("{host", "a { without its }"),
            ("host}", "a } without its {"),
            ("{ho{st}", "a { without its }"),
            ("{}", "unknown variable"),
        ] {
            let out = read::<Template>(&node!(text)).unwrap_err();
            assert!(out.contains(why), "{text}: {out}");
        }
    }

    #[test]
    fn keys_need_no_braces() {
        for text in ["header.x-user", "{header.x-user}"] {
            let key: Key = read(&node!(text)).unwrap();
            assert_eq!(key.variable(), Some(&Variable::Header("x-user".into())));
            assert_eq!(key.to_string(), "header.x-user");
        }
        let key: Key = read(&node!("{client_ip}-{host}")).unwrap();
        assert_eq!((key.variable(), key.to_string().as_str()), (None, "{client_ip}-{host}"));
        for (text, why) in [
            ("clientip", "did you mean \"client_ip\"?"),
            ("{{x}}", "is the same for every request"),
        ] {
            let out = read::<Key>(&node!(text)).unwrap_err();
            assert!(out.contains(why), "{text}: {out}");
        }
    }

    #[test]
    fn errors_show_nothing_that_comes_from_the_environment() {
        let node = |text: &str, typed: &str| {
            let typed = Some(typed.to_owned());
            Node {
                value: Value::Scalar(Scalar { text: text.to_owned(), plain: false, typed }),
                ..node!("")
            }
        };
        for (text, typed, why) in [
            ("{header.a/secret}", "{header.${NAME}}", "invalid variable"),
            ("{secret}", "{${NAME}}", "invalid variable"),
            ("{secret", "{${NAME}", "a { without its }"),
        ] {
            let out = read::<Template>(&node(text, typed)).unwrap_err();
            assert!(out.contains(why) && !out.contains("secret"), "{typed}: {out}");
        }
        for (text, why) in [("secret", "invalid variable"), ("{{secret}}", "same for every")] {
            let out = read::<Key>(&node(text, "${NAME}")).unwrap_err();
            assert!(out.contains(why) && !out.contains("secret"), "{text}: {out}");
        }
        let out = read::<Variable>(&node("secret", "${NAME}")).unwrap_err();
        assert!(out.contains("invalid variable") && !out.contains("secret"), "{out}");
    }

    #[test]
    fn the_reader_learns_which_path_parameters_are_wanted() {
        let mut report = Report::new();
        let mut reader = Reader::new(&mut report);
        Template::read(&node!("/new/{path.id}/{path}"), &mut reader);
        Key::read(&node!("path.shop"), &mut reader);
        let names: Vec<_> = reader.take_path_variables().into_iter().map(|n| n.value).collect();
        assert_eq!(names, ["id", "shop"]);
        assert!(reader.take_path_variables().is_empty());
    }
}
