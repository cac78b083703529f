---@meta silly.metrics.collector.silly

---Coroutines, connections and timers of this worker.
---@class silly.metrics.collector.silly
local M = {}

---@return silly.metrics.registry.Collector
function M.new() end

return M
