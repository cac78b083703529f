---@meta tide.perf

return require "silly.perf"
