---@meta tide.metrics.registry

return require "silly.metrics.registry"
