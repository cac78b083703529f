---@meta core.hive

return require "silly.hive"
