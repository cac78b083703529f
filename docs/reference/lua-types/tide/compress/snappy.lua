---@meta tide.compress.snappy

return require "silly.compress.snappy"
