//! `--access-log-format`: formats of other servers become the one of the configuration.
//!
//! Atoms are gunicorn's and hypercorn's, `%(h)s`, and granian's, `%(addr)s`.

use settings::LogTemplate;

/// Atoms and the text of a format that stands for them.
const ATOMS: &[(&str, &str)] = &[
    ("h", "{client_ip}"),
    ("l", "-"),
    ("u", "{consumer}"),
    ("t", "[{time}]"),
    ("r", "{method} {target} {protocol}"),
    ("R", "{method} {path} {protocol}"),
    ("m", "{method}"),
    ("U", "{path}"),
    ("Uq", "{target}"),
    ("q", "{query}"),
    ("H", "{protocol}"),
    ("s", "{status}"),
    ("st", "{status}"),
    ("B", "{bytes}"),
    ("b", "{bytes}"),
    ("f", "{header.referer}"),
    ("a", "{header.user-agent}"),
    ("T", "{duration_s}"),
    ("M", "{duration_ms}"),
    ("D", "{duration_us}"),
    ("L", "{duration}"),
    ("p", "<{process}>"),
    ("addr", "{client_ip}"),
    ("time", "{time}"),
    ("dt_ms", "{duration_ms}"),
    ("status", "{status}"),
    ("path", "{path}"),
    ("query_string", "{query}"),
    ("method", "{method}"),
    ("scheme", "{scheme}"),
    ("protocol", "{protocol}"),
];

/// Parses a format: `json`, `combined`, atoms of other servers, or text with variables. Returns it
/// as `log.access.format` has it.
pub(super) fn parse(typed: &str) -> Result<String, String> {
    if matches!(typed, "json" | "combined") {
        return Ok(typed.to_owned());
    }
    let format = if typed.contains("%(") { translate(typed)? } else { typed.to_owned() };
    match format.parse::<LogTemplate>() {
        Ok(_) => Ok(format),
        Err(why) => Err(format!("\"{typed}\": {why}")),
    }
}

fn translate(typed: &str) -> Result<String, String> {
    let mut format = String::new();
    let mut rest = typed;
    while let Some((before, after)) = rest.split_once('%') {
        push_text(before, &mut format);
        if let Some(after) = after.strip_prefix('%') {
            format.push('%');
            rest = after;
            continue;
        }
        let named = after.strip_prefix('(').and_then(|after| after.split_once(")s"));
        let Some((atom, after)) = named else {
            return Err(format!("\"{typed}\" has a % that does not begin an atom such as %(h)s"));
        };
        format.push_str(&text_of(atom)?);
        rest = after;
    }
    push_text(rest, &mut format);
    Ok(format)
}

/// Adds text as it is: braces begin no variable.
fn push_text(text: &str, format: &mut String) {
    format.push_str(&text.replace('{', "{{").replace('}', "}}"));
}

fn text_of(atom: &str) -> Result<String, String> {
    if let Some((_, text)) = ATOMS.iter().find(|(name, _)| *name == atom) {
        return Ok((*text).to_owned());
    }
    let member = atom.strip_prefix('{').and_then(|atom| atom.split_once('}'));
    match member {
        Some((name, "i")) => Ok(format!("{{header.{}}}", name.to_ascii_lowercase())),
        Some((_, "o")) => Err(format!(
            "%({atom})s is not supported: fields of responses are not logged, only their status \
             and length"
        )),
        Some((_, "e")) => Err(format!(
            "%({atom})s is not supported: the log is written outside of Python and has no environ"
        )),
        _ => Err(format!("%({atom})s is not a known atom")),
    }
}

#[cfg(test)]
mod tests {
    use super::{ATOMS, parse};

    #[test]
    fn formats_of_other_servers() {
        for (typed, format) in [
            ("json", "json"),
            ("combined", "combined"),
            ("{client_ip} {status}", "{client_ip} {status}"),
            (
                "%(h)s %(l)s %(u)s %(t)s \"%(r)s\" %(s)s %(b)s \"%(f)s\" \"%(a)s\"",
                "{client_ip} - {consumer} [{time}] \"{method} {target} {protocol}\" {status} \
                 {bytes} \"{header.referer}\" \"{header.user-agent}\"",
            ),
            ("%({X-Forwarded-For}i)s %(L)s", "{header.x-forwarded-for} {duration}"),
            ("{\"code\": %(s)s, \"p\": \"100%%\"}", "{{\"code\": {status}, \"p\": \"100%\"}}"),
            ("[%(time)s] %(addr)s - %(dt_ms)s", "[{time}] {client_ip} - {duration_ms}"),
        ] {
            assert_eq!(parse(typed), Ok(format.to_owned()), "{typed}");
        }
    }

    #[test]
    fn every_atom_is_a_valid_format() {
        for (atom, _) in ATOMS {
            let typed = format!("%({atom})s %(s)s");
            assert!(parse(&typed).is_ok(), "{atom}: {:?}", parse(&typed));
        }
    }

    #[test]
    fn what_is_not_supported_is_named() {
        for (typed, said) in [
            ("%({content-type}o)s", "fields of responses are not logged"),
            ("%({REMOTE_USER}e)s", "has no environ"),
            ("%({cookie}i)s", "is a credential"),
            ("%(x)s", "%(x)s is not a known atom"),
            ("%(h)s 100%", "does not begin an atom"),
            ("%(h", "does not begin an atom"),
            ("combned", "has no variable"),
        ] {
            let why = parse(typed).unwrap_err();
            assert!(why.contains(said), "{typed}: {why}");
        }
    }
}
