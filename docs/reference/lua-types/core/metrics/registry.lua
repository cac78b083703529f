---@meta core.metrics.registry

return require "silly.metrics.registry"
