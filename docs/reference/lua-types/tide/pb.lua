---@meta tide.pb

return require "silly.pb"
