---@meta tide.adt.queue

return require "silly.adt.queue"
