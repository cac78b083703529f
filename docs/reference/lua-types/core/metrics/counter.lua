---@meta core.metrics.counter

return require "silly.metrics.counter"
