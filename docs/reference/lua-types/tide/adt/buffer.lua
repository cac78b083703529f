---@meta tide.adt.buffer

return require "silly.adt.buffer"
