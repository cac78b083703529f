//! A certificate for development in place of those that the documents name, so that a configuration
//! for production starts on a machine without its certificates.

use std::path::Path;

use settings::{MapKey, Node, Report, Value, node};

/// Makes every listener and stream with TLS, and the admin API, present this certificate; the file
/// also contains its key.
pub(crate) fn use_certificate(root: &mut Node, file: &Path, report: &mut Report) {
    let Some(file) = file.to_str() else {
        let why = format!("the name of {} is not UTF-8 text", file.display());
        report.error(root.span, why);
        return;
    };
    let pair = || Node::quoted(file);
    let mut files = node!({});
    set(&mut files, "cert", pair());
    set(&mut files, "key", pair());
    let certificates = Node::made(Value::List(vec![files]));
    let mut is_used = false;
    for part in with_tls(root) {
        let Some(tls) = get_mut(part, "tls") else { continue };
        if tls.is_null() {
            tls.value = Value::Map(Vec::new());
        }
        remove(tls, "acme");
        set(tls, "certificates", certificates.clone());
        is_used = true;
    }
    if !is_used {
        report
            .error(root.span, "the certificate for development has no listener with tls")
            .help("write tls: {} on a listener");
    }
}

/// The parts of a configuration that may have `tls`.
fn with_tls(root: &mut Node) -> Vec<&mut Node> {
    let Value::Map(entries) = &mut root.value else { return Vec::new() };
    let mut parts = Vec::new();
    for (key, node) in entries {
        if key.name == "admin" {
            parts.push(node);
            continue;
        }
        match (key.name.as_str(), &mut node.value) {
            ("listeners", Value::Map(listeners)) => {
                parts.extend(listeners.iter_mut().map(|(_, listener)| listener));
            }
            ("streams", Value::List(streams)) => parts.extend(streams),
            _ => {}
        }
    }
    parts
}

fn get_mut<'n>(node: &'n mut Node, key: &str) -> Option<&'n mut Node> {
    let Value::Map(entries) = &mut node.value else { return None };
    entries.iter_mut().find(|(name, _)| name.name == key).map(|(_, node)| node)
}

fn remove(node: &mut Node, key: &str) {
    if let Value::Map(entries) = &mut node.value {
        entries.retain(|(name, _)| name.name != key);
    }
}

fn set(node: &mut Node, key: &str, value: Node) {
    remove(node, key);
    let span = node.span;
    if let Value::Map(entries) = &mut node.value {
        entries.push((MapKey { name: key.to_owned(), span }, Node { span, ..value }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tls_presents_the_certificate() {
        let mut root = node!({
            "listeners": {
                "web": { "bind": ":80" },
                "a": { "tls": null },
                "b": { "tls": { "acme": { "domains": [] }, "hsts": "1d" } },
            },
            "streams": [{ "tls": { "certificates": [] } }, { "sni": {} }],
            "admin": { "tls": {} },
        });
        let mut report = Report::new();
        use_certificate(&mut root, Path::new("/d/site.pem"), &mut report);
        assert!(report.is_empty());
        let pair = r#"[{"cert":"/d/site.pem","key":"/d/site.pem"}]"#;
        for (path, settings) in [
            ("/listeners/a/tls", ""),
            ("/listeners/b/tls", r#""hsts":"1d","#),
            ("/streams/0/tls", ""),
            ("/admin/tls", ""),
        ] {
            let expected = format!("{{{settings}\"certificates\":{pair}}}");
            let expected: serde_json::Value = serde_json::from_str(&expected).unwrap();
            assert_eq!(root.to_json().pointer(path), Some(&expected), "{path}");
        }
        for plain in ["/listeners/web/tls", "/streams/1/tls"] {
            assert_eq!(root.to_json().pointer(plain), None);
        }
    }

    #[test]
    fn a_configuration_without_tls_is_an_error() {
        let mut root = node!({ "listeners": { "web": { "bind": ":80" } } });
        let mut report = Report::new();
        use_certificate(&mut root, Path::new("/d/site.pem"), &mut report);
        assert!(report.render().contains("write tls: {} on a listener"));
    }
}
