---@meta tide.sync.waitgroup

return require "silly.sync.waitgroup"
