---@meta tide.test

return require "silly.test"
