---@meta core.net

return require "silly.net"
