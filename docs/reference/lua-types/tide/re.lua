---@meta tide.re

return require "silly.re"
