---@meta tide.metrics.counter

return require "silly.metrics.counter"
