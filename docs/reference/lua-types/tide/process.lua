---@meta tide.process

return require "silly.process"
