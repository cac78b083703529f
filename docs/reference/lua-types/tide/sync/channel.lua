---@meta tide.sync.channel

return require "silly.sync.channel"
