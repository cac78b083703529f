---@meta tide.trace

return require "silly.trace"
