//! The entry of a list that a command names.

use serde_json::Value;

use crate::failure::Failure;

/// Removes all entries but the one of this name from a list of `what`.
pub(super) fn only_named(list: &mut Value, name: &str, what: &str) -> Result<(), Failure> {
    let Some(list) = list.as_array_mut() else { return Ok(()) };
    let known: Vec<String> =
        list.iter().filter_map(|one| one["name"].as_str().map(str::to_owned)).collect();
    list.retain(|one| one["name"] == *name);
    if !list.is_empty() {
        return Ok(());
    }
    let near = settings::nearest(name, known.iter().map(String::as_str));
    let near = near.map(|near| format!(", did you mean {near:?}?")).unwrap_or_default();
    Err(Failure::Failed(format!("there is no {what} {name:?}{near}")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{Failure, only_named};

    #[test]
    fn a_name_without_an_entry_has_the_nearest_one() {
        let mut list = json!([{ "name": "shop" }, { "name": "site" }]);
        assert!(only_named(&mut list, "shop", "app").is_ok());
        assert_eq!(list, json!([{ "name": "shop" }]));
        let why = "there is no app \"shp\", did you mean \"shop\"?".to_owned();
        assert_eq!(only_named(&mut list, "shp", "app"), Err(Failure::Failed(why)));
    }
}
