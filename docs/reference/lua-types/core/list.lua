---@meta core.list

return require "silly.adt.list"
