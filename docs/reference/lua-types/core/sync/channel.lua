---@meta core.sync.channel

return require "silly.sync.channel"
