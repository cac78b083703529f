---@meta tide.fs

return require "silly.fs"
