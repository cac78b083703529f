---@meta silly.debugger

---Where a debugger listens.
---@class silly.debugger.DebuggerOptions
---@field addr string On loopback, or unix:/path.
---@field wait? boolean Return once a client has set its breakpoints.

---Breakpoints and steps.
---@class silly.debugger
local M = {}

---A session, until read returns nil or the command q.
---@param read function
---@param write function
---@return string
function M.start(read, write) end

---The Debug Adapter Protocol, for one client at a time.
---@param options silly.debugger.DebuggerOptions
---@return table?
---@return string?
function M.listen(options) end

return M
