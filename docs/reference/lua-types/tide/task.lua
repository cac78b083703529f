---@meta tide.task

return require "silly.task"
