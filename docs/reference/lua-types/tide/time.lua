---@meta tide.time

return require "silly.time"
