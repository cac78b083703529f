---@meta tide.crypto.pkey

return require "silly.crypto.pkey"
