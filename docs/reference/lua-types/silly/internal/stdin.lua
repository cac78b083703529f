---@meta silly.internal.stdin

---Standard input, whose reads wait; a program has it as io.stdin.
---@class silly.internal.stdin
local M = {}

---As Lua's file:read.
---@param ... any
---@return any ...
function M:read(...) end

---@param ... any
---@return fun(): any
function M:lines(...) end

---@return any ...
function M:close() end

return M
