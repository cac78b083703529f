---@meta core.metrics.labels

return require "silly.metrics.labels"
