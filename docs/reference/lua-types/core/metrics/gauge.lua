---@meta core.metrics.gauge

return require "silly.metrics.gauge"
