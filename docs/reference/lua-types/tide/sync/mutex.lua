---@meta tide.sync.mutex

return require "silly.sync.mutex"
