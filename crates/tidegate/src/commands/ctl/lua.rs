//! `tidegate ctl lua`: Lua files, and the last errors of their code.

use super::show;
use crate::ctl::{Client, lua_text};
use crate::failure::Failure;

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
        show(&lua, self.json, lua_text)
    }
}
