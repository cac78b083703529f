---@meta silly.metrics.collector.jemalloc

---A collector without figures: the allocator is mimalloc.
---@class silly.metrics.collector.jemalloc
local M = {}

---@return silly.metrics.registry.Collector
function M.new() end

return M
