---@meta tide.http2.hpack

return require "silly.http2.hpack"
