---@meta core.metrics.collector.process

return require "silly.metrics.collector.process"
