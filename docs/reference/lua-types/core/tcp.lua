---@meta core.tcp

return require "silly.net.tcp"
