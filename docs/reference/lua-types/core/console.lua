---@meta core.console

return require "silly.console"
