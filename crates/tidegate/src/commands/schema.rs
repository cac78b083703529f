//! `tidegate schema`: the schema of the configuration, and reference pages.

use clap::ValueEnum;

use crate::failure::Failure;
use crate::output::print_bytes;

const EXAMPLES: &str = "\
Examples:
  tidegate schema > tidegate.schema.json
      and in the first line of tidegate.yaml, for editors:
      # yaml-language-server: $schema=./tidegate.schema.json
  tidegate schema --markdown | less
  tidegate schema --markdown=metrics";

/// Print the JSON Schema of the configuration, or a reference page as Markdown
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SchemaOf {
    /// Print a reference page as Markdown instead
    #[arg(
        long,
        value_name = "PAGE",
        value_enum,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "configuration"
    )]
    markdown: Option<Page>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Page {
    /// Every key of the configuration
    Configuration,
    /// Everything `/metrics` exports
    Metrics,
    /// Every endpoint of the admin API
    Admin,
}

impl SchemaOf {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let page = match self.markdown {
            None => format!("{:#}\n", config::schema()),
            Some(Page::Configuration) => config::reference_markdown(),
            Some(Page::Metrics) => admin::metrics_markdown(),
            Some(Page::Admin) => admin::endpoints_markdown(),
        };
        print_bytes(page.as_bytes())
    }
}
