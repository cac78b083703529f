//! Formats of access log lines.

use settings::{LogTemplate, Variable};

use crate::{FuzzTarget, owned};

pub(crate) const TARGET: FuzzTarget = FuzzTarget {
    check: template,
    seeds: || {
        owned(&[
            &b"{client_ip} [{time}] \"{method} {target} {protocol}\" {status} {bytes}"[..],
            b"{{status}} {{{duration_us}}} {header.x-a} {query.q}}}",
            b"plain",
        ])
    },
    dictionary: &["{", "}", "{{", "}}", "{status}", "{time", "{header.", "{path.id}", "{cookie.a}"],
    cases: 3000,
};

/// A format that is accepted reads back as itself, and names no credentials.
fn template(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let Ok(template) = text.parse::<LogTemplate>() else { return };
    let written = template.to_string();
    assert_eq!(written.parse::<LogTemplate>().as_ref(), Ok(&template), "{text:?}");
    let is_credential = |variable: &Variable| match variable {
        Variable::Header(name) => ["authorization", "cookie"].contains(&name.as_str()),
        _ => false,
    };
    assert!(!template.variables().any(is_credential), "{text:?}");
}
