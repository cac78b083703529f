---@meta tide.patch

return require "silly.patch"
