---@meta core.metrics.collector.core

return require "silly.metrics.collector.silly"
