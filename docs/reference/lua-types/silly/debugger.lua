---@meta silly.debugger

---Breakpoints and steps.
---@class silly.debugger
local M = {}

---A session, until read returns nil or the command q.
---@param read function
---@param write function
---@return string
function M.start(read, write) end

return M
