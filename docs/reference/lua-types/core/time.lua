---@meta core.time

return require "silly.time"
