---@meta core.net.tcp

return require "silly.net.tcp"
