---@meta tide.net.addr

return require "silly.net.addr"
