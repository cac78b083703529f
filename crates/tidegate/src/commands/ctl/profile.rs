//! `tidegate ctl profile`: where the Lua code of a server uses CPU time, or allocates.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use admin::limits::{PROFILE_S, PROFILE_S_MAX};

use crate::ctl::Client;
use crate::failure::Failure;
use crate::output::{print, print_bytes};

/// The formats, and the names of files that mean them.
const FORMATS: [(&str, &str); 3] = [("pprof", ".pb.gz"), ("svg", ".svg"), ("folded", ".folded")];

/// Record a profile of the server's Lua code while it serves
#[derive(Debug, clap::Args)]
pub(super) struct ProfileOf {
    /// How long to record, at most 60
    #[arg(
        long,
        value_name = "N",
        default_value_t = PROFILE_S,
        value_parser = clap::value_parser!(u64).range(1..=PROFILE_S_MAX)
    )]
    seconds: u64,

    /// CPU time, or allocated bytes
    #[arg(long, default_value = "cpu", value_parser = ["cpu", "allocations"])]
    kind: String,

    /// pprof for `go tool pprof`, svg for a flame graph, folded for a line of text for each stack
    /// [default: that of the file's name, else pprof]
    #[arg(long, value_parser = FORMATS.map(|(format, _)| format))]
    format: Option<String>,

    /// Write it to this file, which ends in .pb.gz, .svg or .folded unless --format is given
    /// [default: standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

impl ProfileOf {
    pub(super) fn run(self, client: &Client) -> Result<(), Failure> {
        let format = self.format()?;
        if self.out.is_none() && format == "pprof" && std::io::stdout().is_terminal() {
            return Err(Failure::Wrong(
                "a profile for pprof is not text: name a file with --out, or use --format folded"
                    .to_owned(),
            ));
        }
        let (seconds, kind) = (self.seconds, &self.kind);
        let target = format!("/v1/lua/profile?seconds={seconds}&kind={kind}&format={format}");
        let profile = client.fetch(&target)?;
        let Some(out) = self.out else { return print_bytes(&profile) };
        let shown = out.display();
        std::fs::write(&out, &profile)
            .map_err(|error| Failure::Failed(format!("cannot write {shown}: {error}")))?;
        print(&format!("{kind}, {seconds} s, in {shown}\n"))
    }

    fn format(&self) -> Result<&str, Failure> {
        match (&self.format, &self.out) {
            (Some(format), _) => Ok(format.as_str()),
            (None, None) => Ok("pprof"),
            (None, Some(out)) => format_of(out).ok_or_else(|| {
                Failure::Wrong(format!(
                    "the name of a profile ends in .pb.gz, .svg or .folded, or --format says what \
                     it is: {}",
                    out.display()
                ))
            }),
        }
    }
}

/// The format that the name of a file means.
fn format_of(file: &Path) -> Option<&'static str> {
    let name = file.to_string_lossy();
    FORMATS.iter().find(|(_, ending)| name.ends_with(ending)).map(|(format, _)| *format)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::format_of;

    #[test]
    fn the_name_of_a_file_says_its_format() {
        let format = |name: &str| format_of(Path::new(name));
        assert_eq!(format("/tmp/shop.pb.gz"), Some("pprof"));
        assert_eq!(format("a.svg"), Some("svg"));
        assert_eq!(format("a.folded"), Some("folded"));
        assert_eq!(format("a.png"), None);
    }
}
