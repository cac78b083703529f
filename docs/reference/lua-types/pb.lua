---@meta pb

return require "silly.pb"
