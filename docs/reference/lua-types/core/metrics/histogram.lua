---@meta core.metrics.histogram

return require "silly.metrics.histogram"
