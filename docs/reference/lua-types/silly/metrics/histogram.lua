---@meta silly.metrics.histogram

---A histogram of this worker, in no registry.
---@class silly.metrics.histogram
---@overload fun(name: string, help?: string, labels?: string[], buckets?: number[]): silly.metrics.prometheus.Histogram
local M = {}

return M
