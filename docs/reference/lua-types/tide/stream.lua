---@meta tide.stream

return require "silly.stream"
