---@meta core.queue

return require "silly.adt.queue"
