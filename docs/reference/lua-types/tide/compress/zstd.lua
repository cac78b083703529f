---@meta tide.compress.zstd

return require "silly.compress.zstd"
