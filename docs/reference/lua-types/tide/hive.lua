---@meta tide.hive

return require "silly.hive"
