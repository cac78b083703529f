---@meta core.task

return require "silly.task"
