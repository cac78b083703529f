//! `tidegate ctl lua`: Lua files, and the last errors of their code.

use crate::ctl::{Client, lua_text};
use crate::failure::Failure;
use crate::output::{print, print_json};

/// Show Lua files with what uses them, and the last errors of their code with their stacks
#[derive(Debug, clap::Args)]
pub(super) struct LuaOf {
    /// Print the response of the API as JSON
    #[arg(long)]
    json: bool,
}

impl LuaOf {
    pub(super) fn run(self, client: &Client) -> Result<(), Failure> {
        let lua = client.ask("GET", "/v1/lua")?;
        if self.json { print_json(&lua) } else { print(&lua_text(&lua)) }
    }
}
