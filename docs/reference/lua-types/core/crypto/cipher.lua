---@meta core.crypto.cipher

return require "silly.crypto.cipher"
