---@meta tide.metrics.collector.silly

return require "silly.metrics.collector.silly"
