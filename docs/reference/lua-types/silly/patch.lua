---@meta silly.patch

---Shares the state of the code that is replaced.
---@class silly.patch.Patch
local Patch = {}

---@param value function|table
---@return table
function Patch:collectupval(value) end

---@param new any
---@param newtree any
---@param old? any
---@param oldtree? any
---@return table
function Patch:join(new, newtree, old, oldtree) end

---Replaces code in a running program.
---@class silly.patch
local M = {}

---@return silly.patch.Patch
function M.new() end

---@param name string
---@return table?
---@return any
function M.reload(name) end

return M
