---@meta tide.adt.list

return require "silly.adt.list"
