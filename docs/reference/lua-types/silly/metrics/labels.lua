---@meta silly.metrics.labels

---Sets of label values.
---@class silly.metrics.labels
local M = {}

---@param cache table
---@param names string[]
---@param values any[]
---@return string
function M.key(cache, names, values) end

return M
