---@meta zproto

return require "silly.zproto"
