---@meta silly.trace

---Ids that correlate lines of the log.
---@class silly.trace
local M = {}

---@param node integer
function M.setnode(node) end

---@return integer?
function M.spawn() end

---@param id? integer
---@return integer?
function M.attach(id) end

---@return integer
function M.propagate() end

return M
