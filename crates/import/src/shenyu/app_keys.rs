//! Consumers from the app keys with which requests are signed for the plugin sign.
//!
//! Promises that an app gets no access that ShenYu does not give it: one that is disabled, or whose
//! access depends on paths, is left out.

use serde_json::{Value, json};

use super::super::pike::name_of;
use super::model::{Export, text};

/// The shortest secret that `hmac_auth` accepts.
const SECRET_BYTES_MIN: usize = 16;
/// The longest name of a key.
const KEY_BYTES_MAX: usize = 256;

/// The entries of `consumers`.
pub(super) fn consumers(export: &Export, notes: &mut Vec<String>) -> Vec<Value> {
    let mut consumers = Vec::new();
    let (mut names, mut keys): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for app in export.objects(&["auth.json"]) {
        let (key, secret) = (text(app, "appKey"), text(app, "appSecret"));
        let reason = match () {
            () if app["enabled"] == false => "it is disabled",
            () if app["open"] == true => "its paths are limited: write `allow` behind `hmac_auth`",
            () if secret.len() < SECRET_BYTES_MIN => "its secret is shorter than 16 bytes",
            () if !is_key(&key) => "its key is not ASCII text without spaces",
            () if keys.contains(&key) => "an earlier app has its key",
            () => "",
        };
        if !reason.is_empty() {
            let id = text(app, "id");
            notes.push(format!("auth.json: app {key:?} ({id}) is not carried over: {reason}"));
            continue;
        }
        let numbered = (2..).map(|number| format!("{}-{number}", name_of(&key)));
        let mut candidates = [name_of(&key)].into_iter().chain(numbered);
        let name = candidates.find(|name| !names.contains(name)).unwrap_or_default();
        let signature_key = json!({ "id": key, "algorithm": "md5", "secret": secret });
        consumers.push(json!({ "name": name, "signature_keys": [signature_key] }));
        names.push(name);
        keys.push(key);
    }
    notes.push(match consumers.is_empty() {
        true => "auth.json: there is no app whose requests plugin sign accepts".to_owned(),
        false => "consumers: secrets are in clear text below: move them to files, `secret: { file \
                  }`; apps sign by MD5, write `algorithm` for those that sign by another one"
            .to_owned(),
    });
    consumers
}

fn is_key(text: &str) -> bool {
    let length = 1..=KEY_BYTES_MAX;
    length.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}
