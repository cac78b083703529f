---@meta tide.protoc

return require "silly.protoc"
