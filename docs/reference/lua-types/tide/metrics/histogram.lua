---@meta tide.metrics.histogram

return require "silly.metrics.histogram"
