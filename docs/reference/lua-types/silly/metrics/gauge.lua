---@meta silly.metrics.gauge

---A gauge of this worker, in no registry.
---@class silly.metrics.gauge
---@overload fun(name: string, help?: string, labels?: string[]): silly.metrics.prometheus.Gauge
local M = {}

return M
