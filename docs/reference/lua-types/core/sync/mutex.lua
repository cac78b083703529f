---@meta core.sync.mutex

return require "silly.sync.mutex"
