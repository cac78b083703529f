---@meta tide.crypto.cipher

return require "silly.crypto.cipher"
