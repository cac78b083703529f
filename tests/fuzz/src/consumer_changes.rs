//! The file of consumers' changes: what it says survives writing and reading.

use crate::FuzzTarget;

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: |data| {
        if let Ok(text) = std::str::from_utf8(data) {
            auth::reread_changes(text);
        }
    },
    seeds: || crate::owned(&[DELETED, WHOLE]),
    dictionary: &[
        "tidegate-consumer-changes 1\n",
        "\n",
        "{\"name\":\"a\",\"entry\":null}",
        "\"replaces\":\"0\"",
        "\"groups\":[\"g\"]",
        "\"labels\":{\"a\":\"b\"}",
        "\"keys\":[{\"key\":\"k\"}]",
        "\"certificates\":[{\"name\":\"a\"}]",
        "\"jwt\":{\"subject\":\"s\"}",
        "\"limits\":{\"rate\":\"1/h\"}",
        "***",
        "${A}",
        "\\u0000",
        "1e9",
    ],
    cases: 3000,
};

const DELETED: &str = "tidegate-consumer-changes 1\n\
    {\"name\":\"ann\",\"replaces\":\"0123456789abcdef\",\"entry\":null}\n";

const WHOLE: &str = "tidegate-consumer-changes 1\n\
    {\"name\":\"ann\",\"replaces\":null,\"entry\":{\"name\":\"ann\",\"groups\":[\"gold\"],\
    \"labels\":{\"team\":\"shop\"},\"keys\":[{\"key\":\"sesame\"}],\
    \"certificates\":[{\"subject\":\"CN=ann\"}],\
    \"password\":\"$2y$04$ry.yb/gg5EeymKWaWk.7Suz.8R9PwrFdpwcl/XW24EGFRt/XODclK\",\
    \"jwt\":{\"subject\":\"7\"},\"signature_keys\":[{\"id\":\"k\",\"algorithm\":\"md5\",\
    \"secret\":\"0123456789abcdef\"}],\"limits\":{\"rate\":\"5/s\",\"burst\":9,\
    \"quotas\":{\"monthly\":1000}}}}\n{\"name\":\"ann\",\"entry\":null";
