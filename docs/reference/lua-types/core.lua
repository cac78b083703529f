---@meta core

return require "silly"
