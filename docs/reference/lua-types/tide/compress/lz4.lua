---@meta tide.compress.lz4

return require "silly.compress.lz4"
