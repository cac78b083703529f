---@meta core.net.addr

return require "silly.net.addr"
