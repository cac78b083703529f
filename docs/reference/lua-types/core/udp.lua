---@meta core.udp

return require "silly.net.udp"
