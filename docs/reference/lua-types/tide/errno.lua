---@meta tide.errno

return require "silly.errno"
