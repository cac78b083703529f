---@meta tide.signal

return require "silly.signal"
