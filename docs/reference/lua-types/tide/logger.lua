---@meta tide.logger

return require "silly.logger"
