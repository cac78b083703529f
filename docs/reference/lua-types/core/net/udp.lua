---@meta core.net.udp

return require "silly.net.udp"
