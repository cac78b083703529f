---@meta core.crypto.pkey

return require "silly.crypto.pkey"
