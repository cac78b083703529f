//! `codings:` of the filter: which codings of an answer are kept ready.

use coding::Coding;
use exchange::MediaPattern;
use settings::{Node, Reader, Size};

settings::record! {
    /// Which codings of an answer are kept ready. An answer is kept as it came; the first client
    /// that prefers another coding has it made, once, on another thread, and gets what there is.
    /// Clients that take none get it uncoded.
    pub struct CodingSettings {
        /// The codings that clients may have, the favourite first; their preferences come before
        /// ours. None: answers are given as they came, and uncoded.
        pub offer: Vec<CodingWord> = ["zstd", "br", "gzip"],
        /// The media types to code: `text/html`, `text/*`, or `*+json` by suffix.
        pub types: Vec<MediaPattern> = [
            "text/*", "application/json", "application/javascript", "application/xml",
            "application/manifest+json", "application/wasm", "*+json", "*+xml", "application/yaml",
            "application/toml", "application/vnd.ms-fontobject", "font/ttf", "font/otf",
            "image/bmp", "image/vnd.microsoft.icon"
        ],
        /// Smaller bodies stay as they are.
        pub min_size: Size = "1KiB" { in "0B"..="1GiB" },
        /// Larger bodies stay as they are: they are coded as a whole, in memory.
        pub max_size: Size = "16MiB" { in "1KiB"..="1GiB" },
        /// How long a response may become that is decoded for a client which does not accept its
        /// encoding. A longer one breaks off, and is requested from the origin for such clients
        /// from then on.
        pub max_decoded: Size = "1GiB" { in "64KiB"..="1TiB" },
        /// Levels for the first time a coding is asked for.
        pub levels: Levels = {},
        /// Levels for what is asked for again and again, and is fresh for long enough.
        pub best_levels: BestLevels = {},
        /// How often a coding is asked for before it is made again at its best level; 0 never does.
        pub best_after: u32 = 64 { in 0..=1000000000 },
        /// What the origin is asked for, whatever clients accept. None: it is asked for uncoded
        /// answers, which suits an origin on the same machine.
        pub origin: Vec<CodingWord> = ["gzip"],
    }
    check: check;
}

settings::record! {
    /// Levels of compression: more is smaller and slower.
    pub struct Levels {
        /// For gzip.
        pub gzip: u32 = 5 { in 1..=9 },
        /// For Brotli.
        pub br: u32 = 4 { in 0..=11 },
        /// For Zstandard.
        pub zstd: u32 = 3 { in 1..=19 },
    }
}

settings::record! {
    /// Levels of compression for what is asked for again and again.
    pub struct BestLevels {
        /// For gzip.
        pub gzip: u32 = 9 { in 1..=9 },
        /// For Brotli.
        pub br: u32 = 9 { in 0..=11 },
        /// For Zstandard.
        pub zstd: u32 = 15 { in 1..=19 },
    }
}

settings::choice! {
    /// A content coding.
    pub enum CodingWord {
        /// Zstandard.
        Zstd = "zstd",
        /// Brotli.
        Br = "br",
        /// Gzip, which every client knows.
        Gzip = "gzip",
    }
}

impl CodingWord {
    pub fn coding(&self) -> Coding {
        match self {
            CodingWord::Zstd => Coding::Zstd,
            CodingWord::Br => Coding::Br,
            CodingWord::Gzip => Coding::Gzip,
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
            reader.mistake(at, format!("{key} names no coding twice"));
        }
    }
}
