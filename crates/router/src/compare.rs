//! Compares one pattern with one path, segment by segment, for explanations: the reason matters
//! here, speed does not. The compiled table implements the same rules; tests compare the two.

use std::fmt;

use settings::quote;

use crate::{PathPattern, Segment, Segments};

/// The first difference between a path and a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathDiffers {
    /// Number of the segment, from 1; 0 if the pattern is compared as a whole.
    pub segment: usize,
    /// The segment of the pattern; `None` at its end.
    pub wanted: Option<String>,
    /// The segment of the path; `None` at its end.
    pub found: Option<String>,
}

/// The byte ranges of the parameters, or the first difference.
pub(crate) fn compare(
    pattern: &PathPattern,
    path: &str,
) -> Result<Vec<(usize, usize)>, PathDiffers> {
    let matches = match pattern {
        PathPattern::Segments(segments) => return by_segments(segments, path),
        PathPattern::PathGlob(ant) => ant.is_match(path).then(Vec::new),
        PathPattern::Regex(regex) => regex.captures(path).map(|captures| {
            let group =
                |name| captures.name(name).map_or((0, 0), |group| (group.start(), group.end()));
            pattern.params().into_iter().map(group).collect()
        }),
    };
    matches.ok_or_else(|| PathDiffers {
        segment: 0,
        wanted: Some(pattern.to_string()),
        found: Some(path.to_owned()),
    })
}

fn by_segments(pattern: &Segments, path: &str) -> Result<Vec<(usize, usize)>, PathDiffers> {
    let mut ranges = Vec::new();
    // The position of the remaining path, with its slash; `None` after the end.
    let mut at = path.starts_with('/').then_some(0);
    for (index, part) in pattern.parts().enumerate() {
        let found = at.map(|at| {
            let from = at + 1;
            (from, path[from..].find('/').map_or(path.len(), |length| from + length))
        });
        match (&part, found) {
            (Segment::Rest(_), _) => {
                ranges.push((at.map_or(path.len(), |at| at + 1), path.len()));
                return Ok(ranges);
            }
            (Segment::Literal(text), Some((from, to))) if **text == path[from..to] => {}
            (Segment::Param(_), Some((from, to))) if from < to => ranges.push((from, to)),
            _ => {
                return Err(PathDiffers {
                    segment: index + 1,
                    wanted: Some(part.to_string()),
                    found: found.map(|(from, to)| path[from..to].to_owned()),
                });
            }
        }
        at = found.map(|(_, to)| to).filter(|to| *to < path.len());
    }
    match at {
        None => Ok(ranges),
        Some(at) => Err(PathDiffers {
            segment: pattern.parts().count() + 1,
            wanted: None,
            found: Some(path[at + 1..].to_owned()),
        }),
    }
}

impl fmt::Display for PathDiffers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let found = self.found.as_deref().map(quote);
        match (self.segment, &self.wanted, found) {
            (0, Some(wanted), _) => write!(f, "the path is not like {wanted}"),
            (at, Some(wanted), Some(found)) => {
                write!(f, "the path differs at segment {at}: {found} is not {wanted}")
            }
            (at, Some(wanted), None) => {
                write!(f, "the path ends before segment {at}, which is {wanted}")
            }
            (at, None, found) => {
                let found = found.unwrap_or_default();
                write!(f, "the path continues with {found} at segment {at}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::compare;
    use crate::PathPattern;
    use settings::{node, read};

    #[test]
    fn the_table_of_paths() {
        for (pattern, path, wanted) in [
            ("/", "/", Ok(vec![])),
            ("/", "/a", Err("differs at segment 1: \"a\" is not \"\"")),
            ("/a", "/a", Ok(vec![])),
            ("/a", "/a/", Err("continues with \"\" at segment 2")),
            ("/a/", "/a", Err("ends before segment 2, which is \"\"")),
            ("/a/", "/a/", Ok(vec![])),
            ("/a/{id}", "/a/7", Ok(vec!["7"])),
            ("/a/{id}", "/a/", Err("differs at segment 2: \"\" is not {id}")),
            ("/a/{id}", "/b/7", Err("differs at segment 1: \"b\" is not \"a\"")),
            ("/a/{id}", "/a/7/8", Err("continues with \"8\" at segment 3")),
            ("/a/{*r}", "/a", Ok(vec![""])),
            ("/a/{*r}", "/a/", Ok(vec![""])),
            ("/a/{*r}", "/a/b/", Ok(vec!["b/"])),
            ("/a/{*r}", "/ab", Err("differs at segment 1")),
            ("/{*r}", "/", Ok(vec![""])),
            ("/{*r}", "/é/x", Ok(vec!["é/x"])),
            ("/{a}/x/{b}/{*c}", "/1/x/2", Ok(vec!["1", "2", ""])),
        ] {
            let parsed: PathPattern = read(&node!(pattern)).unwrap();
            match (compare(&parsed, path), wanted) {
                (Ok(ranges), Ok(values)) => {
                    let found: Vec<_> = ranges.iter().map(|(from, to)| &path[*from..*to]).collect();
                    assert_eq!(found, values, "{pattern} {path}");
                }
                (Err(differs), Err(why)) => {
                    assert!(differs.to_string().contains(why), "{pattern} {path}: {differs}");
                }
                (found, wanted) => panic!("{pattern} {path}: {found:?}, wanted {wanted:?}"),
            }
        }
    }
}
