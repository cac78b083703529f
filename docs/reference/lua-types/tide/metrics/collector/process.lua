---@meta tide.metrics.collector.process

return require "silly.metrics.collector.process"
