---@meta core.logger

return require "silly.logger"
