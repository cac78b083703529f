//! `tidegate explain [FILE] METHOD URL`: the route and filters of a request.

mod graph;

use std::net::IpAddr;
use std::path::{Path, PathBuf};

use admin::Question;
use config::FileSource;

use super::up::exists;
use crate::failure::Failure;
use crate::output::{print, print_bytes, print_json};
use graph::GraphFormat;

const ARGUMENTS: &str = "\
Arguments:
  [FILE]  The configuration [default: tidegate.yaml]
  METHOD  A method, such as GET
  URL     A URL, or a path";

const EXAMPLES: &str = "\
No request is sent. A running server explains its configuration at POST /v1/explain.

Examples:
  tidegate explain GET http://shop.example.com/api/catalog/7
  tidegate explain site.yaml POST http://127.0.0.1:8080/orders -H 'content-type: application/json'
  tidegate explain GET /admin --client-ip 10.1.2.3 --listener web
  tidegate explain --graph=svg tidegate.yaml > tidegate.svg";

const GRAPH_USAGE: &str =
    "a picture is of a whole configuration: explain --graph takes a FILE only";

const USAGE: &str = "a request is described by its METHOD and its URL, perhaps after a FILE\n\n\
    For example: tidegate explain GET http://127.0.0.1:8080/";

/// Show which route a request takes, why not the others, and its filters in order
#[derive(Debug, clap::Args)]
#[command(
    after_help = format!("{ARGUMENTS}\n\n{EXAMPLES}"),
    override_usage = "tidegate explain [OPTIONS] [FILE] METHOD URL"
)]
pub(crate) struct Explain {
    /// The configuration, a method and a URL
    // The optional argument comes first, which clap cannot describe.
    #[arg(value_name = "WORD", hide = true)]
    words: Vec<String>,

    /// A header field of the request; may be given several times
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = field)]
    headers: Vec<(String, String)>,

    /// The address of the client
    #[arg(long, value_name = "IP")]
    client_ip: Option<IpAddr>,

    /// The listener of the request [default: the first of the configuration]
    #[arg(long, value_name = "NAME")]
    listener: Option<String>,

    /// Print JSON instead of text
    #[arg(long)]
    json: bool,

    /// Draw the whole configuration instead: its listeners, routes, handlers and servers
    #[arg(
        long,
        value_name = "FORMAT",
        num_args = 0..=1,
        default_missing_value = "mermaid",
        require_equals = true,
        conflicts_with_all = ["headers", "client_ip", "listener", "json"]
    )]
    graph: Option<GraphFormat>,
}

impl Explain {
    pub(crate) fn run(self) -> Result<(), Failure> {
        if let Some(format) = self.graph {
            let file = match &self.words[..] {
                [] => super::DEFAULT_FILE,
                [file] => file,
                _ => return Err(Failure::Wrong(GRAPH_USAGE.to_owned())),
            };
            exists(Path::new(file))?;
            let plan = super::load(&FileSource::new(PathBuf::from(file)))?;
            return print_bytes(graph::draw(&plan, format).as_bytes());
        }
        if let Some(advice) = misplaced(&self.words) {
            return Err(Failure::Wrong(advice));
        }
        let (file, method, url) = match <[String; 3]>::try_from(self.words) {
            Ok([file, method, url]) => (file, method, url),
            Err(words) => match <[String; 2]>::try_from(words) {
                Ok([method, url]) => (super::DEFAULT_FILE.to_owned(), method, url),
                Err(_) => return Err(Failure::Wrong(USAGE.to_owned())),
            },
        };
        let file = PathBuf::from(file);
        exists(&file)?;
        let plan = super::load(&FileSource::new(file))?;
        let question = Question {
            method,
            url,
            headers: self.headers,
            client_ip: self.client_ip,
            listener: self.listener,
        };
        let explanation = server::explain(&plan, &question).map_err(Failure::Wrong)?;
        match self.json {
            true => print_json(&explanation.json),
            false => print(&format!("{}\n", explanation.text.trim_end())),
        }
    }
}

/// The kind of an argument, by its form.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ArgumentKind {
    File,
    Method,
    Url,
}

impl ArgumentKind {
    fn of(word: &str) -> Option<ArgumentKind> {
        let yaml = [".yaml", ".yml", ".json"].iter().any(|ending| word.ends_with(ending));
        let url = ["http://", "https://"].iter().any(|scheme| word.starts_with(scheme));
        // `/etc/a.yaml` may be the path of a request too.
        if url || (word.starts_with('/') && !(yaml && Path::new(word).is_file())) {
            return Some(ArgumentKind::Url);
        }
        if yaml || word.contains('/') {
            return Some(ArgumentKind::File);
        }
        (!word.is_empty() && word.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-'))
            .then_some(ArgumentKind::Method)
    }
}

/// Suggests a command line if the arguments are in another order or one is missing.
fn misplaced(words: &[String]) -> Option<String> {
    const ORDER: [ArgumentKind; 3] = [ArgumentKind::File, ArgumentKind::Method, ArgumentKind::Url];
    let kinds = words.iter().map(|word| ArgumentKind::of(word)).collect::<Option<Vec<_>>>()?;
    let at = |kind| kinds.iter().position(|found| *found == kind);
    let distinct = kinds.iter().all(|kind| kinds.iter().filter(|k| *k == kind).count() == 1);
    let missing = match (at(ArgumentKind::Method), at(ArgumentKind::Url)) {
        (Some(_), Some(_)) => None,
        (None, Some(_)) => Some("the method is missing"),
        (Some(_), None) => Some("the URL is missing"),
        (None, None) => return None,
    };
    let rank = |kind: &ArgumentKind| ORDER.iter().position(|known| known == kind);
    if !distinct || (missing.is_none() && kinds.is_sorted_by_key(rank)) {
        return None;
    }
    let written = ORDER.iter().filter_map(|kind| match (at(*kind), kind) {
        (Some(index), _) => Some(words[index].as_str()),
        (None, ArgumentKind::Method) => Some("GET"),
        (None, ArgumentKind::Url) => Some("http://127.0.0.1:8080/"),
        (None, ArgumentKind::File) => None,
    });
    let written = written.collect::<Vec<_>>().join(" ");
    let why = missing.unwrap_or("the arguments are in another order: a FILE, the METHOD, the URL");
    Some(format!("{why}\n\nWrite: tidegate explain {written}"))
}

/// Parses a field as curl does: `name: value`, without the space.
fn field(typed: &str) -> Result<(String, String), String> {
    match typed.split_once(':') {
        Some((name, value)) if wire::token::is_token(name.as_bytes()) => {
            Ok((name.to_owned(), value.trim().to_owned()))
        }
        _ => Err("a header field is written NAME: VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::field;

    #[test]
    fn header_fields() {
        assert_eq!(field("x-a: b: c "), Ok(("x-a".to_owned(), "b: c".to_owned())));
        assert_eq!(field("x-a:"), Ok(("x-a".to_owned(), String::new())));
        assert!(field("x-a").is_err() && field("x a: b").is_err() && field(": b").is_err());
    }
}
