//! `codings:` of the filter: the content codings of stored responses.

use coding::Coding;
use plugin::MediaPattern;
use settings::{Node, Reader, Setting, Size};

/// The content codings of stored responses. A response is stored as it was received. The first
/// client that prefers another coding causes it to be made, once, on another thread. Clients that
/// accept none get decoded content.
#[derive(Clone, Debug, PartialEq, Setting)]
#[setting(check = check)]
pub struct CodingSettings {
    /// The codings that clients may get, the preferred one first; preferences of clients come
    /// first. If empty, responses are sent as received, or decoded.
    #[setting(default = ["zstd", "br", "gzip"])]
    pub offer: Vec<CodingName>,
    /// The media types that are compressed: `text/html`, `text/*`, or `*+json` by suffix.
    #[setting(
        default = [
            "text/*", "application/json", "application/javascript", "application/xml",
            "application/manifest+json", "application/wasm", "*+json", "*+xml", "application/yaml",
            "application/toml", "application/vnd.ms-fontobject", "font/ttf", "font/otf",
            "image/bmp", "image/vnd.microsoft.icon",
        ],
    )]
    pub types: Vec<MediaPattern>,
    /// Smaller bodies are not compressed.
    #[setting(default = "1KiB", range = "0B"..="1GiB")]
    pub min_size: Size,
    /// Larger bodies are not compressed: it is done as a whole, in memory.
    #[setting(default = "16MiB", range = "1KiB"..="1GiB")]
    pub max_size: Size,
    /// Longest response that is decoded for a client which does not accept its coding. A longer one
    /// breaks off, and requests of such clients are forwarded from then on.
    #[setting(default = "1GiB", range = "64KiB"..="1TiB")]
    pub max_decoded: Size,
    /// Levels for the first request.
    #[setting(default = {})]
    pub levels: Levels,
    /// Levels for responses that are requested often and stay fresh long enough.
    #[setting(default = {})]
    pub best_levels: BestLevels,
    /// After how many requests a coding is made again at its best level; 0 never does.
    #[setting(default = 64, range = 0..=1000000000)]
    pub best_after: u32,
    /// The codings that the origin is requested to send, whatever clients accept. If empty, the
    /// origin is requested to send uncompressed responses, which suits an origin on the same
    /// machine.
    #[setting(default = ["gzip"])]
    pub origin: Vec<CodingName>,
}

/// Compression levels: higher is smaller and slower.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct Levels {
    /// For gzip.
    #[setting(default = 5, range = 1..=9)]
    pub gzip: u32,
    /// For Brotli.
    #[setting(default = 4, range = 0..=11)]
    pub br: u32,
    /// For Zstandard.
    #[setting(default = 3, range = 1..=19)]
    pub zstd: u32,
}

/// Compression levels for responses that are requested often.
#[derive(Clone, Debug, PartialEq, Setting)]
pub struct BestLevels {
    /// For gzip.
    #[setting(default = 9, range = 1..=9)]
    pub gzip: u32,
    /// For Brotli.
    #[setting(default = 9, range = 0..=11)]
    pub br: u32,
    /// For Zstandard.
    #[setting(default = 15, range = 1..=19)]
    pub zstd: u32,
}

/// A content coding.
#[derive(Clone, Debug, PartialEq, Setting)]
pub enum CodingName {
    /// Zstandard.
    Zstd,
    /// Brotli.
    Br,
    /// Gzip, which every client supports.
    Gzip,
}

impl CodingName {
    pub fn coding(&self) -> Coding {
        match self {
            CodingName::Zstd => Coding::Zstd,
            CodingName::Br => Coding::Br,
            CodingName::Gzip => Coding::Gzip,
        }
    }
}

impl BestLevels {
    pub fn of(&self, coding: Coding) -> u32 {
        match coding {
            Coding::Gzip => self.gzip,
            Coding::Br => self.br,
            Coding::Zstd => self.zstd,
        }
    }
}

impl Levels {
    pub fn of(&self, coding: Coding) -> u32 {
        match coding {
            Coding::Gzip => self.gzip,
            Coding::Br => self.br,
            Coding::Zstd => self.zstd,
        }
    }
}

fn check(settings: &CodingSettings, node: &Node, reader: &mut Reader<'_>) {
    for (key, words) in [("offer", &settings.offer), ("origin", &settings.origin)] {
        let mut tokens: Vec<_> = words.iter().map(|word| word.coding().token()).collect();
        tokens.sort_unstable();
        if tokens.windows(2).any(|pair| pair[0] == pair[1]) {
            let at = node.get(key).unwrap_or(node).span;
            reader.error(at, format!("{key} names no coding twice"));
        }
    }
}
