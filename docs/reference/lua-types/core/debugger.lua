---@meta core.debugger

return require "silly.debugger"
