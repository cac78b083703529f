---@meta core.sync.waitgroup

return require "silly.sync.waitgroup"
