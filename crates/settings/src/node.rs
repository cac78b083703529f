//! The neutral tree a configuration document is read into: maps, lists and scalars, each with the
//! place it was written.
//!
//! Promises: order and spelling are kept; a scalar has no type of its own until a setting asks for
//! one, so that `on`, `0755` and `8080` cause no surprise. Never does: parsing of YAML or JSON
//! (that is `config`).

/// Which document of a [`Report`](crate::Report) a span points into.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(pub u32);

impl SourceId {
    /// The source of defaults and of tests, which have no text to show.
    pub const NOWHERE: SourceId = SourceId(u32::MAX);
}

/// The position of a node in a document. Lines and columns count from 1, columns in characters; the
/// end is exclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    pub source: SourceId,
    pub line: u32,
    pub column: u32,
    pub end_line: u32,
    pub end_column: u32,
}

impl Span {
    /// The place of what no document wrote.
    pub const NOWHERE: Span =
        Span { source: SourceId::NOWHERE, line: 0, column: 0, end_line: 0, end_column: 0 };
}

impl Default for Span {
    fn default() -> Self {
        Span::NOWHERE
    }
}

/// A value and its place.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub value: Value,
    pub span: Span,
}

/// The value of a node.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Nothing: `key:`, `~` or `null`.
    Null,
    Scalar(Scalar),
    List(Vec<Node>),
    /// In the order written. The reader of documents refuses repeated keys.
    Map(Vec<(MapKey, Node)>),
    /// An invalid value that was reported: reading it fails without another error.
    Broken,
}

/// The text of a scalar. Which type it has is decided by the setting that reads it.
#[derive(Clone, PartialEq, Eq)]
pub struct Scalar {
    /// The text that counts, after `${ENV}` was replaced.
    pub text: String,
    /// Written without quotes, so that it may be a number or a truth value.
    pub plain: bool,
    /// The text as it was typed, where expansion changed it: the one that may be shown.
    pub typed: Option<String>,
}

// By hand: a value from the environment may be a secret.
impl std::fmt::Debug for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:?}", self.shown())
    }
}

impl Scalar {
    /// The text that may be logged: never the value of an environment variable.
    pub fn shown(&self) -> &str {
        self.typed.as_deref().unwrap_or(&self.text)
    }

    /// True if this may be a number or a truth value. Quoted text is text, unless it came from the
    /// environment: that is often quoted only because braces need it.
    pub fn untyped(&self) -> bool {
        self.plain || self.typed.is_some()
    }
}

/// A key of a map and its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapKey {
    pub name: String,
    pub span: Span,
}

impl Node {
    /// A node that no document wrote: defaults, examples and tests (see [`node!`](crate::node)).
    pub fn made(value: Value) -> Self {
        Node { value, span: Span::NOWHERE }
    }

    /// An unquoted scalar at no place.
    pub fn plain(text: impl Into<String>) -> Self {
        Node::made(Value::Scalar(Scalar { text: text.into(), plain: true, typed: None }))
    }

    /// A quoted scalar at no place.
    pub fn quoted(text: impl Into<String>) -> Self {
        Node::made(Value::Scalar(Scalar { text: text.into(), plain: false, typed: None }))
    }

    pub fn is_null(&self) -> bool {
        matches!(self.value, Value::Null)
    }

    /// The text of a scalar.
    pub fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Scalar(scalar) => Some(&scalar.text),
            _ => None,
        }
    }

    pub fn list(&self) -> Option<&[Node]> {
        match &self.value {
            Value::List(items) => Some(items),
            _ => None,
        }
    }

    pub fn map(&self) -> Option<&[(MapKey, Node)]> {
        match &self.value {
            Value::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The value under a key of a map.
    pub fn get(&self, key: &str) -> Option<&Node> {
        self.map()?.iter().find(|(k, _)| k.name == key).map(|(_, node)| node)
    }

    /// The same tree as JSON, for schemas and for showing; numbers and truth values as YAML's core
    /// schema reads them.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null | Value::Broken => serde_json::Value::Null,
            Value::Scalar(scalar) => scalar_to_json(scalar),
            Value::List(items) => items.iter().map(Node::to_json).collect(),
            Value::Map(entries) => {
                entries.iter().map(|(key, node)| (key.name.clone(), node.to_json())).collect()
            }
        }
    }

    /// The description of the found value in errors.
    pub(crate) fn found(&self) -> String {
        match &self.value {
            Value::Null | Value::Broken => "nothing".to_owned(),
            Value::Scalar(scalar) => quote(scalar.shown()),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }
}

fn scalar_to_json(scalar: &Scalar) -> serde_json::Value {
    let text = scalar.shown();
    if scalar.plain {
        match text {
            "true" => return true.into(),
            "false" => return false.into(),
            _ => {}
        }
        if let Ok(number) = text.parse::<i64>()
            && number.to_string() == text
        {
            return number.into();
        }
        // `0755`, `+5`, `1_000` are not numbers to any setting.
        let decimal = |c: char| c.is_ascii_digit() || matches!(c, '.' | '-' | 'e' | 'E');
        let fraction = text.contains(['.', 'e', 'E']) && text.chars().all(decimal);
        if let Ok(number) = text.parse::<f64>()
            && fraction
            && number.is_finite()
        {
            return number.into();
        }
    }
    text.into()
}

/// Text as a message shows it: in quotes, without control characters, not endless.
pub fn quote(text: &str) -> String {
    const SHOWN_CHARS: usize = 60;
    let mut out = String::from("\"");
    for (n, c) in text.chars().enumerate() {
        if n == SHOWN_CHARS {
            out.push('…');
            break;
        }
        match c {
            '"' => out.push_str("\\\""),
            c if c.is_control() => out.extend(c.escape_default()),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// A [`Node`] written in the code: `node!({ "rate": "100/s", "burst": 50, "methods": ["GET",
/// "HEAD"] })`.
///
/// For defaults, examples and tests of settings. Text in quotes becomes an unquoted scalar, as in a
/// YAML file.
#[macro_export]
macro_rules! node {
    (null) => { $crate::Node::made($crate::Value::Null) };
    ([ $($item:tt),* $(,)? ]) => {
        $crate::Node::made($crate::Value::List(vec![$($crate::node!($item)),*]))
    };
    ({ $($key:literal : $value:tt),* $(,)? }) => {
        $crate::Node::made($crate::Value::Map(vec![$((
            $crate::MapKey { name: $key.to_string(), span: $crate::Span::NOWHERE },
            $crate::node!($value),
        )),*]))
    };
    ($scalar:expr) => { $crate::Node::plain($scalar.to_string()) };
}

#[cfg(test)]
mod tests {
    use super::{Node, Scalar, Value, quote};

    #[test]
    fn the_macro_builds_trees() {
        let node = node!({ "a": 1, "b": ["x", true, null], "c": { "d": 1.5 }, "e": {} });
        assert_eq!(node.get("a").and_then(Node::text), Some("1"));
        assert_eq!(node.get("b").and_then(Node::list).map(<[_]>::len), Some(3));
        let json = r#"{"a":1,"b":["x",true,null],"c":{"d":1.5},"e":{}}"#;
        assert_eq!(node.to_json().to_string(), json);
    }

    #[test]
    fn only_numbers_become_numbers() {
        for (text, json) in
            [("5", "5"), ("0755", "\"0755\""), ("1.5", "1.5"), ("+5", "\"+5\""), ("inf", "\"inf\"")]
        {
            assert_eq!(Node::plain(text).to_json().to_string(), json);
        }
        assert_eq!(Node::quoted("5").to_json().to_string(), "\"5\"");
    }

    #[test]
    fn expanded_text_is_never_shown() {
        let scalar =
            Scalar { text: "hunter2".into(), plain: true, typed: Some("${TOKEN}".to_owned()) };
        assert_eq!(format!("{scalar:?}"), "\"${TOKEN}\"");
        assert_eq!(Node::made(Value::Scalar(scalar)).to_json(), "${TOKEN}");
    }

    #[test]
    fn quoting_is_bounded_and_printable() {
        assert_eq!(quote("a\"b\u{1b}[m"), "\"a\\\"b\\u{1b}[m\"");
        assert_eq!(quote(&"x".repeat(100)).chars().count(), 63);
    }
}
