---@meta tide.shared

return require "silly.shared"
