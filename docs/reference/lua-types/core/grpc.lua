---@meta core.grpc

return require "silly.net.grpc"
