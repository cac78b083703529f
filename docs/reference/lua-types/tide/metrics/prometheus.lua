---@meta tide.metrics.prometheus

return require "silly.metrics.prometheus"
