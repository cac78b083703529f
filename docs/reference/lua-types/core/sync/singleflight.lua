---@meta core.sync.singleflight

return require "silly.sync.singleflight"
