//! `tidegate completions SHELL`.

use clap::CommandFactory;
use clap_complete::Shell;

use super::Tidegate;
use crate::failure::Failure;
use crate::output::print_bytes;

const EXAMPLES: &str = "\
Examples:
  tidegate completions bash > /etc/bash_completion.d/tidegate
  tidegate completions zsh > \"${fpath[1]}/_tidegate\"
  tidegate completions fish > ~/.config/fish/completions/tidegate.fish";

/// Print the completion script of a shell
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(self) -> Result<(), Failure> {
        let mut script = Vec::new();
        let mut command = Tidegate::command();
        clap_complete::generate(self.shell, &mut command, "tidegate", &mut script);
        print_bytes(&script)
    }
}
