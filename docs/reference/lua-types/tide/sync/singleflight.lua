---@meta tide.sync.singleflight

return require "silly.sync.singleflight"
