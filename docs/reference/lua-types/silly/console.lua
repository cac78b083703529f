---@meta silly.console

---Options of a console.
---@class silly.console.Options
---@field addr string unix: and a path.
---@field cmd? table<string, function> Further commands by name.

---A console of the running program on a Unix socket.
---@class silly.console
---@overload fun(options: silly.console.Options): table?, string?
local M = {}

return M
