---@meta core.compress.gzip

return require "silly.compress.gzip"
