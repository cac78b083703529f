---@meta tide.metrics

return require "silly.metrics"
