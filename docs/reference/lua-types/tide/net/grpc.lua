---@meta tide.net.grpc

return require "silly.net.grpc"
