//! [`record!`](crate::record): a map with known keys, declared once.
//!
//! Owns the reading of such maps: unknown keys with their nearest word, keys that come later,
//! missing keys, defaults read by the same reader as what users type, ranges.

use crate::nearest::nearest;
use crate::node::{MapKey, Node, Value, quote};
use crate::reader::{Reader, read};
use crate::setting::Setting;

/// Declares a struct that is read from a map. See the [crate documentation](crate) for a whole
/// example.
///
/// ```text
/// settings::record! {
///     /// What it is: one sentence, then details. Becomes the reference page and the schema.
///     pub struct Name {
///         /// What the key does.
///         pub key: Type = default { in low..=high, example value, example value },
///         /// Without a default the key is required, unless its type is an `Option`.
///         pub other: Option<Type>,
///     }
///     // each of these is optional; they stand in this order
///     later: promised, but_not_built;     // refused with "comes later"
///     short: key;                         // a value that is no map stands for `{ key: value }`
///     check: function;                    // fn(&Name, &Node, &mut Reader<'_>): several keys
/// }
/// ```
///
/// Defaults, bounds and examples are written as [`node!`](crate::node) takes them: `"1s"`, `50`,
/// `true`, `[]`, `{}`, `["GET", "HEAD"]`, `null`. A record whose every field has a default also
/// gets `Default`.
#[macro_export]
macro_rules! record {
    // Every field has a default: the struct has one too.
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $fdoc:literal])*
                $fvis:vis $field:ident : $ty:ty = $default:tt $({ $($opts:tt)* })?
            ),* $(,)?
        }
        $($clauses:tt)*
    ) => {
        $crate::record! { @build
            $(#[doc = $doc])*
            $vis struct $name {
                $($(#[doc = $fdoc])* $fvis $field : $ty = $default $({ $($opts)* })?,)*
            }
            $($clauses)*
        }

        impl ::std::default::Default for $name {
            fn default() -> Self {
                // No input reaches this: a test calls `settings::verify` for every declaration.
                $crate::read(&$crate::node!({})).expect("every field has a valid default")
            }
        }
    };
    (
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident { $($fields:tt)* }
        $($clauses:tt)*
    ) => {
        $crate::record! { @build
            $(#[doc = $doc])*
            $vis struct $name { $($fields)* }
            $($clauses)*
        }
    };

    (@build
        $(#[doc = $doc:literal])*
        $vis:vis struct $name:ident {
            $(
                $(#[doc = $fdoc:literal])*
                $fvis:vis $field:ident : $ty:ty $(= $default:tt)? $({ $($opts:tt)* })?
            ),* $(,)?
        }
        $(later: $($later:ident),+ $(,)? ;)?
        $(short: $short:ident ;)?
        $(check: $check:path ;)?
    ) => {
        $(#[doc = $doc])*
        #[derive(Clone, Debug, PartialEq)]
        $vis struct $name {
            $($(#[doc = $fdoc])* $fvis $field: $ty,)*
        }

        impl $crate::Setting for $name {
            fn schema(defs: &mut $crate::SchemaBuilder) -> $crate::Schema {
                defs.define(concat!(module_path!(), "::", stringify!($name)), |_defs| {
                    $crate::Def::Record($crate::RecordDef {
                        doc: $crate::doc(&[$($doc),*]),
                        fields: vec![$({
                            let mut field = $crate::Field {
                                key: $crate::macros::key(stringify!($field)),
                                doc: $crate::doc(&[$($fdoc),*]),
                                schema: <$ty as $crate::Setting>::schema(_defs),
                                default: None $(.or(Some($crate::node!($default))))?,
                                required: <$ty as $crate::Setting>::missing().is_none(),
                                range: None,
                                examples: Vec::new(),
                                accepts: |node| $crate::read::<$ty>(node).map(drop),
                            };
                            field.required &= field.default.is_none();
                            $($crate::record! { @describe field [$ty] $($opts)* })?
                            field
                        }),*],
                        later: &[$($(stringify!($later)),+)?],
                        short: None $(.or(Some($crate::macros::key(stringify!($short)))))?,
                    })
                })
            }

            fn read(node: &$crate::Node, reader: &mut $crate::Reader<'_>) -> Option<Self> {
                const KEYS: &[&str] = &[$(stringify!($field)),*];
                const LATER: &[&str] = &[$($(stringify!($later)),+)?];
                const SHORT: Option<&str> = [$(Some(stringify!($short)),)? None][0];
                let _before = reader.report().len();
                let _fields = $crate::macros::Fields::open(node, KEYS, LATER, SHORT, reader)?;
                $(
                    let default: Option<$crate::Node> = None $(.or(Some($crate::node!($default))))?;
                    let range: $crate::macros::Range<$ty> =
                        None $(.or($crate::record! { @range $($opts)* }))?;
                    let $field: Option<$ty> =
                        _fields.read(stringify!($field), default, range, reader);
                )*
                let this = $name { $($field: $field?),* };
                $(if reader.report().len() == _before {
                    $check(&this, node, reader);
                })?
                Some(this)
            }
        }
    };

    (@describe $out:ident [$ty:ty]) => {};
    (@describe $out:ident [$ty:ty] in $low:tt ..= $high:tt $(, $($rest:tt)*)?) => {
        $out.range = Some(($crate::node!($low), $crate::node!($high)));
        $out.accepts = |node| {
            $crate::macros::accepts::<$ty>(node, &$crate::node!($low), &$crate::node!($high))
        };
        $($crate::record! { @describe $out [$ty] $($rest)* })?
    };
    (@describe $out:ident [$ty:ty] example $example:tt $(, $($rest:tt)*)?) => {
        $out.examples.push($crate::node!($example));
        $($crate::record! { @describe $out [$ty] $($rest)* })?
    };

    (@range) => { None };
    (@range in $low:tt ..= $high:tt $(, $($rest:tt)*)?) => {
        Some(($crate::node!($low), $crate::node!($high), |value, low, high| {
            value >= low && value <= high
        }))
    };
    (@range example $example:tt $(, $($rest:tt)*)?) => {
        None $(.or($crate::record! { @range $($rest)* }))?
    };
}

/// The key a field is written as: `r#match` is `match`.
pub fn key(field: &'static str) -> &'static str {
    field.strip_prefix("r#").unwrap_or(field)
}

/// A map whose keys have been checked, ready to be read field by field.
pub struct Fields<'n> {
    node: &'n Node,
    entries: &'n [(MapKey, Node)],
    /// The value itself, where it stands for one of the fields.
    short: Option<&'static str>,
    /// Keys that unknown ones were probably meant to be, with what stands under those.
    meant: Vec<(&'static str, &'n Node)>,
}

impl<'n> Fields<'n> {
    /// Checks the keys. Values are read, and their mistakes reported, even when a key is wrong.
    pub fn open(
        node: &'n Node,
        keys: &'static [&'static str],
        later: &'static [&'static str],
        short: Option<&'static str>,
        reader: &mut Reader<'_>,
    ) -> Option<Self> {
        let entries: &[(MapKey, Node)] = match &node.value {
            Value::Map(entries) => entries,
            // `compress:` with nothing after it is a map without keys.
            Value::Null => &[],
            _ if short.is_some() => {
                return Some(Fields { node, entries: &[], short, meant: Vec::new() });
            }
            _ => {
                reader.expected(node, "a map");
                return None;
            }
        };
        let mut meant = Vec::new();
        for (written, value) in entries {
            let name = written.name.as_str();
            if later.contains(&name) {
                reader.report().comes_later(written.span, name);
            } else if !keys.iter().any(|k| key(k) == name) {
                reader.report().unknown(written.span, "key", name, keys.iter().map(|k| key(k)));
                let near = nearest(name, keys.iter().map(|k| key(k)));
                meant.extend(near.map(|near| (near, value)));
            }
        }
        Some(Fields { node, entries, short: None, meant })
    }

    fn written(&self, name: &str) -> Option<&'n Node> {
        if let Some(short) = self.short {
            return (key(short) == name).then_some(self.node);
        }
        self.entries.iter().find(|(k, _)| k.name == name).map(|(_, node)| node)
    }

    /// The field as written, else as written under a misspelt key, else its default, else what its
    /// type says of a missing one, else an error and the type's placeholder. What was written and
    /// is wrong has been reported; continuing with another value lets other errors be found.
    pub fn read<T: Setting>(
        &self,
        field: &'static str,
        default: Option<Node>,
        range: Range<T>,
        reader: &mut Reader<'_>,
    ) -> Option<T> {
        let name = key(field);
        let written = self.written(name);
        if let Some(written) = written
            && let Some(value) = T::read(written, reader)
        {
            self.check_range(name, written, &value, range, reader);
            return Some(value);
        }
        let misspelt = self.meant.iter().find(|(near, _)| *near == name).map(|(_, node)| *node);
        if let (None, Some(node)) = (written, misspelt)
            && let Some(value) = reader.attempt(|reader| T::read(node, reader))
        {
            self.check_range(name, node, &value, range, reader);
            return Some(value);
        }
        if let Some(default) = default {
            return T::read(&default, reader);
        }
        let value = T::missing();
        if value.is_none() && written.is_none() && misspelt.is_none() {
            reader
                .mistake(self.node.span, format!("key {} is missing", quote(name)))
                .rule("missing-key");
        }
        value.or_else(T::placeholder)
    }

    /// The bounds are read as if the user had typed them.
    fn check_range<T: Setting>(
        &self,
        name: &str,
        written: &Node,
        value: &T,
        range: Range<T>,
        reader: &mut Reader<'_>,
    ) {
        let Some((low, high, within)) = range else { return };
        let bounds = T::read(&low, reader).zip(T::read(&high, reader));
        if !written.is_null() && bounds.is_some_and(|(low, high)| !within(value, &low, &high)) {
            let outside = outside(written, &low, &high);
            reader.mistake(written.span, format!("{name} {outside}"));
        }
    }
}

/// The bounds of a field as declared, and how to tell whether a value is within them.
pub type Range<T> = Option<(Node, Node, fn(&T, &T, &T) -> bool)>;

fn outside(written: &Node, low: &Node, high: &Node) -> String {
    let (low, high) = (low.text().unwrap_or_default(), high.text().unwrap_or_default());
    format!("{} is not between {low} and {high}", written.found())
}

/// Would a field of this type and range take this node?
pub fn accepts<T: Setting + PartialOrd>(
    node: &Node,
    low: &Node,
    high: &Node,
) -> Result<(), String> {
    let (value, from, to) = (read::<T>(node)?, read::<T>(low)?, read::<T>(high)?);
    match node.is_null() || (from..=to).contains(&value) {
        true => Ok(()),
        false => Err(outside(node, low, high)),
    }
}

#[cfg(test)]
#[path = "record/tests.rs"]
mod tests;
