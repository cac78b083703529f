---@meta tide.profiler

return require "silly.profiler"
