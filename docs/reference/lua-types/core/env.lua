---@meta core.env

return require "silly.env"
