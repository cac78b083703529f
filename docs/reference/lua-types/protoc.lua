---@meta protoc

return require "silly.protoc"
