---@meta tide.debugger

return require "silly.debugger"
