---@meta tide

return require "silly"
