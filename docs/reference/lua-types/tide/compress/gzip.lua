---@meta tide.compress.gzip

return require "silly.compress.gzip"
