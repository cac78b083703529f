---@meta tide.metrics.labels

return require "silly.metrics.labels"
