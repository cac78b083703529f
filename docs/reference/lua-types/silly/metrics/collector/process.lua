---@meta silly.metrics.collector.process

---CPU, memory and descriptors of the process.
---@class silly.metrics.collector.process
local M = {}

---@return silly.metrics.registry.Collector
function M.new() end

return M
