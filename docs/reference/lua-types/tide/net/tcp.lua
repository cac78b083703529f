---@meta tide.net.tcp

return require "silly.net.tcp"
