---@meta tide.pool

return require "silly.pool"
