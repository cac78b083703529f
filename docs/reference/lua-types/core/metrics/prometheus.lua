---@meta core.metrics.prometheus

return require "silly.metrics.prometheus"
