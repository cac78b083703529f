//! The settings of the handler `files`.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use coding::Coding;
use net::files::SymlinkPolicy;
use settings::{FilePath, Node, Reader, Setting};

use crate::media_type;

/// Serves the files of a directory.
///
/// The request's path, perhaps changed by `rewrite`, is the path below the directory. Responds to
/// GET and HEAD, with ranges and conditional requests. Nothing outside the directory is served, by
/// any path or link. A relative directory starts at the configuration file.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(short = root, check = check)]
pub(crate) struct Files {
    /// The directory.
    pub(crate) root: FilePath,
    /// The file served for a directory: the first of these that exists.
    #[setting(default = ["index.html"], example = ["index.html", "index.htm"])]
    pub(crate) index: Vec<String>,
    /// Lists a directory without an index: as HTML, or as JSON if the client prefers it.
    #[setting(default = false)]
    pub(crate) listing: bool,
    /// A file served for missing paths, for applications that route in the browser. A path whose
    /// last segment has an extension stays missing unless the client asks for HTML.
    pub(crate) spa: Option<String>,
    /// Serves names that begin with a dot. `.well-known` is always served.
    #[setting(default = false)]
    pub(crate) dotfiles: bool,
    /// The compressed files next to the requested one (`app.js.br`, `.zst`, `.gz`) that are sent to
    /// clients that accept them, the preferred first. One that is older than its file is not used.
    #[setting(default = ["br", "zstd", "gzip"])]
    pub(crate) precompressed: Vec<Precompressed>,
    /// The value of `Cache-Control`. Unless set, clients decide for themselves.
    #[setting(example = "public, max-age=3600")]
    pub(crate) cache_control: Option<String>,
    /// How symbolic links are treated.
    #[setting(default = "inside")]
    pub(crate) symlinks: Symlinks,
    /// Media types by file extension; they override the built-in ones.
    #[setting(default = {}, example = { "wasm": "application/wasm" })]
    pub(crate) types: BTreeMap<String, String>,
}

/// A content coding of the files next to the requested one.
#[derive(Clone, Debug, PartialEq, Setting)]
pub(crate) enum Precompressed {
    /// Brotli, `.br`.
    Br,
    /// Zstandard, `.zst`.
    Zstd,
    /// Gzip, `.gz`.
    Gzip,
}

/// How symbolic links are treated.
#[derive(Clone, Debug, PartialEq, Setting)]
pub(crate) enum Symlinks {
    /// Followed as long as they stay in the directory.
    Inside,
    /// Never followed: such a path is missing.
    Never,
}

impl Precompressed {
    pub(crate) fn coding(&self) -> Coding {
        match self {
            Precompressed::Br => Coding::Br,
            Precompressed::Zstd => Coding::Zstd,
            Precompressed::Gzip => Coding::Gzip,
        }
    }
}

impl Files {
    pub(crate) fn links(&self) -> SymlinkPolicy {
        match self.symlinks {
            Symlinks::Inside => SymlinkPolicy::Beneath,
            Symlinks::Never => SymlinkPolicy::Refused,
        }
    }

    /// The value of Content-Type for a file with this name.
    pub(crate) fn content_type(&self, name: &str) -> String {
        let own = media_type::ending(name).and_then(|ending| self.types.get(&ending));
        media_type::content_type(own.map_or_else(|| media_type::of(name), String::as_str))
    }
}

fn check(files: &Files, node: &Node, reader: &mut Reader<'_>) {
    let at = |key: &str| node.get(key).unwrap_or(node).span;
    for name in &files.index {
        if !is_relative(name) || name.contains('/') {
            reader.error(at("index"), format!("an index is a file name, not {name:?}"));
        }
    }
    if let Some(spa) = &files.spa
        && !is_relative(spa)
    {
        reader.error(at("spa"), format!("{spa:?} is not a path inside the directory"));
    }
    let mut codings: Vec<_> = files.precompressed.iter().map(|one| one.coding().token()).collect();
    codings.sort_unstable();
    if codings.windows(2).any(|pair| pair[0] == pair[1]) {
        reader.error(at("precompressed"), "a coding is listed twice");
    }
    let is_value = |text: &str| wire::token::is_field_value(text.as_bytes());
    if files.cache_control.as_deref().is_some_and(|value| value.is_empty() || !is_value(value)) {
        reader.error(at("cache_control"), "this cannot be the value of a header");
    }
    for (ending, media_type) in &files.types {
        let is_ending = !ending.starts_with('.') && *ending == ending.to_ascii_lowercase();
        if !is_ending {
            let why = format!("write the extension {ending:?} in lower case and without its dot");
            reader.error(at("types"), why);
        }
        if !media_type.contains('/') || !is_value(media_type) {
            reader.error(at("types"), format!("{media_type:?} is not a media type"));
        }
    }
}

/// True for a path that consists of names only.
fn is_relative(path: &str) -> bool {
    let names = Path::new(path).components().all(|part| matches!(part, Component::Normal(_)));
    names && !path.is_empty() && !path.contains('\0')
}
