---@meta tide.env

return require "silly.env"
