//! Path templates of `google.api.http`: `/v1/{name=shelves/*/books/*}:publish`.
//!
//! Compared with the normal form of a path, segment by segment.

use std::cmp::Ordering;

/// A parsed path template.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Template {
    segments: Vec<Segment>,
    /// What the last segment ends with, after a colon.
    verb: Option<String>,
    variables: Vec<Variable>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Segment {
    Literal(String),
    /// `*`
    One,
    /// `**`, as the last segment: none or more.
    Rest,
}

#[derive(Clone, Debug, PartialEq)]
struct Variable {
    /// The field it sets, as names with dots.
    field: String,
    first: usize,
    /// The segment after its last one.
    end: usize,
}

impl Template {
    pub(super) fn parse(text: &str) -> Result<Template, String> {
        let mut template = Template { segments: Vec::new(), verb: None, variables: Vec::new() };
        let mut rest = text;
        while let Some(after) = rest.strip_prefix('/') {
            rest = match after.strip_prefix('{') {
                Some(variable) => template.variable(variable)?,
                None => {
                    let end = after.find(['/', ':', '{', '}']).unwrap_or(after.len());
                    template.segment(&after[..end])?;
                    &after[end..]
                }
            };
        }
        if let Some(verb) = rest.strip_prefix(':') {
            if verb.is_empty() || verb.contains(['/', ':', '{', '}', '*']) {
                return Err(format!("{text} has an invalid verb"));
            }
            template.verb = Some(verb.to_owned());
            rest = "";
        }
        if !rest.is_empty() || template.segments.is_empty() {
            return Err(format!("{text} is not a path template"));
        }
        Ok(template)
    }

    /// Reads a variable after its opening brace; returns what follows the closing one.
    fn variable<'t>(&mut self, text: &'t str) -> Result<&'t str, String> {
        let Some((inside, rest)) = text.split_once('}') else {
            return Err(format!("{{{text} lacks a closing brace"));
        };
        let (field, pattern) = inside.split_once('=').unwrap_or((inside, "*"));
        if field.is_empty() || pattern.is_empty() || pattern.contains([':', '{']) {
            return Err(format!("{{{inside}}} is not a variable"));
        }
        let first = self.segments.len();
        for segment in pattern.split('/') {
            self.segment(segment)?;
        }
        let end = self.segments.len();
        self.variables.push(Variable { field: field.to_owned(), first, end });
        Ok(rest)
    }

    fn segment(&mut self, text: &str) -> Result<(), String> {
        if self.segments.last() == Some(&Segment::Rest) {
            return Err("a segment after ** can never match".to_owned());
        }
        self.segments.push(match text {
            "" => return Err("it has an empty segment".to_owned()),
            "*" => Segment::One,
            "**" => Segment::Rest,
            text if text.contains('*') => return Err(format!("{text} is not a segment")),
            text => Segment::Literal(text.to_owned()),
        });
        Ok(())
    }

    /// The fields that its variables set.
    pub(super) fn fields(&self) -> impl Iterator<Item = &str> {
        self.variables.iter().map(|variable| variable.field.as_str())
    }

    /// The values of the variables, in order, if the path matches.
    pub(super) fn captures(&self, path: &str) -> Option<Vec<String>> {
        let mut path = path.strip_prefix('/')?;
        if let Some(verb) = &self.verb {
            path = path.strip_suffix(verb.as_str())?.strip_suffix(':')?;
        }
        let parts: Vec<&str> = path.split('/').collect();
        let ends_open = self.segments.last() == Some(&Segment::Rest);
        let fixed = self.segments.len() - usize::from(ends_open);
        // `/a/**` also matches `/a`.
        if parts.len() < fixed || (!ends_open && parts.len() > fixed) {
            return None;
        }
        let matches =
            self.segments[..fixed].iter().zip(&parts).all(|(segment, part)| match segment {
                Segment::Literal(text) => text == part,
                Segment::One | Segment::Rest => !part.is_empty(),
            });
        matches
            .then(|| self.variables.iter().map(|variable| self.capture(variable, &parts)).collect())
    }

    fn capture(&self, variable: &Variable, parts: &[&str]) -> String {
        let is_open = self.segments.get(variable.end - 1) == Some(&Segment::Rest);
        let end = if is_open { parts.len() } else { variable.end };
        let text = parts[variable.first.min(end)..end].join("/");
        let is_one = end - variable.first.min(end) == 1 && !is_open;
        // In the value of several segments a slash separates: an encoded one stays encoded.
        if is_one { text.replace("%2F", "/").replace("%25", "%") } else { text }
    }

    /// Orders templates so that the more exact one comes first.
    pub(super) fn by_exactness(&self, other: &Template) -> Ordering {
        let verbs = self.verb.is_none().cmp(&other.verb.is_none());
        let open = |template: &Template| template.segments.last() == Some(&Segment::Rest);
        // Of two that may match the same path, the first difference decides.
        let key = |template: &Template| {
            let kinds = template.segments.iter().map(|segment| match segment {
                Segment::Literal(_) => 0_u8,
                Segment::One => 1,
                Segment::Rest => 2,
            });
            kinds.collect::<Vec<_>>()
        };
        let (one, two) = (key(self), key(other));
        verbs.then_with(|| one.cmp(&two)).then_with(|| open(self).cmp(&open(other)))
    }

    /// True if both match the same paths.
    pub(super) fn is_same_pattern(&self, other: &Template) -> bool {
        self.segments == other.segments && self.verb == other.verb
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn captured(template: &str, path: &str) -> Option<Vec<String>> {
        Template::parse(template).unwrap().captures(path)
    }

    #[test]
    fn variables_capture_segments() {
        for (template, path, values) in [
            ("/v1/shops", "/v1/shops", Some(vec![])),
            ("/v1/shops", "/v1/shops/a", None),
            ("/v1/shops", "/v1/Shops", None),
            ("/v1/{id}", "/v1/a b", Some(vec!["a b"])),
            ("/v1/{id}", "/v1/", None),
            ("/v1/{id}", "/v1/a%2Fb%25", Some(vec!["a/b%"])),
            ("/v1/{id}", "/v1/a%252F", Some(vec!["a%2F"])),
            ("/v1/{a.b}/x/{c}", "/v1/1/x/2", Some(vec!["1", "2"])),
            (
                "/v1/{name=shelves/*/books/*}",
                "/v1/shelves/1/books/2",
                Some(vec!["shelves/1/books/2"]),
            ),
            ("/v1/{name=shelves/*}/books", "/v1/shelves/a%2Fb/books", Some(vec!["shelves/a%2Fb"])),
            ("/v1/{name=shelves/*/books/*}", "/v1/shelves/1/pages/2", None),
            ("/v1/{path=**}", "/v1/a/b/c", Some(vec!["a/b/c"])),
            ("/v1/{path=**}", "/v1", Some(vec![""])),
            ("/v1/{path=files/**}", "/v1/files/a/b", Some(vec!["files/a/b"])),
            ("/v1/**", "/v1/a/b", Some(vec![])),
            ("/v1/*/x", "/v1/a/x", Some(vec![])),
            ("/v1/{id}:publish", "/v1/a:b:publish", Some(vec!["a:b"])),
            ("/v1/{id}:publish", "/v1/a", None),
            ("/v1/{id}", "/v1/a:publish", Some(vec!["a:publish"])),
        ] {
            let values = values.map(|all| all.into_iter().map(str::to_owned).collect::<Vec<_>>());
            assert_eq!(captured(template, path), values, "{template} {path}");
        }
    }

    #[test]
    fn invalid_templates_are_rejected() {
        for text in [
            "",
            "v1",
            "/",
            "/v1/",
            "/v1//a",
            "/v1/{id",
            "/v1/id}",
            "/v1/{}",
            "/v1/{=a}",
            "/v1/{a=}",
            "/v1/**/a",
            "/v1/{a=**}/b",
            "/v1/a*",
            "/v1:",
            "/v1:a/b",
            "/v1/{a={b}}",
            "/v1/{a=b:c}",
        ] {
            assert!(Template::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_more_exact_template_comes_first() {
        let mut templates: Vec<_> = ["/v1/**", "/v1/{id}", "/v1/{id}:x", "/v1/all"]
            .map(|text| (Template::parse(text).unwrap(), text))
            .into();
        templates.sort_by(|one, two| one.0.by_exactness(&two.0));
        let order: Vec<_> = templates.into_iter().map(|(_, text)| text).collect();
        assert_eq!(order, ["/v1/{id}:x", "/v1/all", "/v1/{id}", "/v1/**"]);
    }
}
