---@meta tide.net.udp

return require "silly.net.udp"
