---@meta silly.metrics.counter

---A counter of this worker, in no registry.
---@class silly.metrics.counter
---@overload fun(name: string, help?: string, labels?: string[]): silly.metrics.prometheus.Counter
local M = {}

return M
