---@meta core.trace

return require "silly.trace"
