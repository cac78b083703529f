---@meta core.errno

return require "silly.errno"
