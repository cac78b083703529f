---@meta tide.net

return require "silly.net"
