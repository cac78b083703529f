---@meta tide.console

return require "silly.console"
