---@meta core.signal

return require "silly.signal"
