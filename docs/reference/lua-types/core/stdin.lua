---@meta core.stdin

return require "silly.internal.stdin"
