//! Checks a declaration itself: a default, a bound or an example that users could not type is a
//! bug. What needs no reader is checked when the declaration is compiled.

use crate::schema::{Def, Field, SchemaBuilder};
use crate::setting::Setting;

/// Checks that the defaults, bounds and examples of a setting and of all settings inside it are
/// valid. One call in a test of each crate's outermost settings is enough.
pub fn verify<T: Setting>() -> Result<(), String> {
    let mut defs = SchemaBuilder::default();
    T::schema(&mut defs);
    verify_defs(&defs)
}

/// The same for definitions already collected, as a table of filters does.
pub fn verify_defs(defs: &SchemaBuilder) -> Result<(), String> {
    let mut wrong = Vec::new();
    for (name, def) in defs.iter() {
        let Def::Record(record) = def else { continue };
        for field in &record.fields {
            let found = problems(field);
            wrong.extend(found.map(|why| format!("{name}.{}: {why}", field.key)));
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn problems(field: &Field) -> impl Iterator<Item = String> {
    let bounds = field.range.iter().flat_map(|(low, high)| [low, high]);
    let nodes = field.default.iter().chain(&field.examples).chain(bounds);
    nodes.filter_map(|node| (field.accepts)(node).err())
}

#[cfg(test)]
mod tests {
    use crate::{Duration, verify};

    /// Fine.
    #[derive(Clone, Debug, PartialEq, settings::Setting)]
    #[setting(short = wait)]
    pub(crate) struct Fine {
        /// Fine.
        #[setting(default = "1s", range = "0s"..="5s", example = "2s")]
        pub(crate) wait: Duration,
    }

    /// Not fine.
    #[derive(Clone, Debug, PartialEq, settings::Setting)]
    pub(crate) struct Wrong {
        /// The default is not a duration.
        #[setting(default = "1")]
        pub(crate) wait: Duration,
        /// The example is out of range.
        #[setting(default = 1, range = 1..=5, example = 6)]
        pub(crate) count: u32,
    }

    #[test]
    fn wrong_declarations_are_found() {
        assert_eq!(verify::<Fine>(), Ok(()));
        let out = verify::<Wrong>().unwrap_err();
        for why in ["has no unit", "\"6\" is not between 1 and 5"] {
            assert!(out.contains(why), "{out}");
        }
    }
}
