---@meta silly.metrics

---The parts of metrics.prometheus.
---@class silly.metrics
---@field DEFAULT_BUCKETS number[]
---@field counter table
---@field gauge table
---@field histogram table
---@field labels table
---@field registry table
---@field process table
---@field silly table
---@field jemalloc table
local M = {}

---@param metrics table
---@return string
function M.format(metrics) end

return M
