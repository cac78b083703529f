---@meta tide.zproto

return require "silly.zproto"
