---@meta core.perf

return require "silly.perf"
