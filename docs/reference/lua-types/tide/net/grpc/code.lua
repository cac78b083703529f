---@meta tide.net.grpc.code

return require "silly.net.grpc.code"
