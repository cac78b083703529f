---@meta core.crypto.hash

return require "silly.crypto.hash"
