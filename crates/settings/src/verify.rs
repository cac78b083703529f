//! Checks a declaration itself: a default, a bound or an example that users could not type is a
//! bug.

use crate::schema::{Def, Field, SchemaBuilder};
use crate::setting::Setting;

/// Checks that everything a setting and what it is made of declares about itself is valid:
/// defaults, bounds and examples read, keys and words have prose. One call in a test of each room's
/// outermost settings is enough.
pub fn verify<T: Setting>() -> Result<(), String> {
    let mut defs = SchemaBuilder::default();
    T::schema(&mut defs);
    verify_defs(&defs)
}

/// The same for definitions already collected, as a table of filters does.
pub fn verify_defs(defs: &SchemaBuilder) -> Result<(), String> {
    let mut wrong = Vec::new();
    for (name, def) in defs.iter() {
        match def {
            Def::Record(record) => {
                for field in &record.fields {
                    let found = problems(field).into_iter();
                    wrong.extend(found.map(|why| format!("{name}.{}: {why}", field.key)));
                }
                if let Some(short) = record.short
                    && !record.fields.iter().any(|field| field.key == short)
                {
                    wrong.push(format!("{name}: the short form names no field"));
                }
            }
            Def::Choice(choice) => {
                let bare = choice.variants.iter().filter(|variant| variant.doc.is_empty());
                wrong.extend(bare.map(|variant| format!("{name}.{}: no prose", variant.name)));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n")) }
}

fn problems(field: &Field) -> Vec<String> {
    let bounds = field.range.iter().flat_map(|(low, high)| [low, high]);
    let nodes = field.default.iter().chain(&field.examples).chain(bounds);
    let mut found: Vec<String> = nodes.filter_map(|node| (field.accepts)(node).err()).collect();
    if field.doc.is_empty() {
        found.push("no prose".to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::{Duration, verify};

    crate::record! {
        /// Fine.
        pub(crate) struct Fine {
            /// Fine.
            pub(crate) wait: Duration = "1s" { in "0s"..="5s", example "2s" },
        }
        short: wait;
    }

    crate::record! {
        /// Not fine.
        pub(crate) struct Wrong {
            pub(crate) undescribed: u32,
            /// The default is no duration.
            pub(crate) wait: Duration = "1",
            /// The example is out of range.
            pub(crate) count: u32 = 1 { in 1..=5, example 6 },
        }
        short: missing;
    }

    #[test]
    fn wrong_declarations_are_found() {
        assert_eq!(verify::<Fine>(), Ok(()));
        let out = verify::<Wrong>().unwrap_err();
        for why in [
            "Wrong.undescribed: no prose",
            "has no unit",
            "\"6\" is not between 1 and 5",
            "short form names no field",
        ] {
            assert!(out.contains(why), "{out}");
        }
    }
}
