---@meta tide.internal.stdin

return require "silly.internal.stdin"
