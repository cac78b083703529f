---@meta core.patch

return require "silly.patch"
