---@meta tide.metrics.gauge

return require "silly.metrics.gauge"
