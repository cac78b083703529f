---@meta tide.crypto.hash

return require "silly.crypto.hash"
